"""A file is written whole, or what was there stays."""

import pytest

from macd_studio.core.system.whole import written_whole


def test_what_was_there_stays_after_an_error(tmp_path):
    path = tmp_path / ("n" * 250)  # as long as a name may be
    path.write_text("old")

    def fail():
        with written_whole(path) as part:
            part.write_text("new")
            assert path.read_text() == "old"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]
    with written_whole(path) as part:
        part.write_text("new")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["new"]


def test_a_link_stays_one_and_its_file_is_replaced(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with written_whole(tmp_path / "link") as part:
        part.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_nobody_else_may_read_a_private_file_from_its_beginning(tmp_path):
    with written_whole(tmp_path / "secret", private=True) as part:
        assert part.stat().st_mode & 0o777 == 0o600
        part.write_text("x")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
