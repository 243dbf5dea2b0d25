// @ts-check
// Opens a trace as the button "Open trace" does.

/**
 * The file input behind the button, once the page has drawn it.
 *
 * @returns {HTMLInputElement | null}
 */
export function openTraceInput() {
  const button = document.querySelector("#open");
  return button && button.parentElement && button.parentElement.querySelector("input[type=file]");
}

/**
 * Gives a file to the page as if it had been chosen by the button.
 *
 * @param {File} file
 */
export function openTrace(file) {
  const input = openTraceInput();
  if (!input) return;
  const transfer = new DataTransfer();
  transfer.items.add(file);
  input.files = transfer.files;
  input.dispatchEvent(new Event("change", { bubbles: true }));
}
