// @ts-check
/** The question before the first screen. Only the server knows which answer is the right one. */

import { byId, make, part } from "./view.js";

/**
 * @typedef {{question: string, options: string[], state: "asked" | "passed" | "failed",
 *   completion: {code: string, address: string} | null}} Screening
 */

/**
 * @param {Screening} screening @param {number | null} given what was answered and is not saved yet, from 1
 * @param {(option: number) => void} answer
 */
export function showScreening(screening, given, answer) {
  part("screening-question").textContent = screening.question;
  part("screening-options").replaceChildren(...screening.options.map((words, i) => {
    const label = make("label", "", "option");
    const radio = make("input");
    Object.assign(radio, { type: "radio", name: "screening", required: true, checked: given === i + 1,
      disabled: given !== null, value: String(i + 1) });
    label.append(radio, make("span", words));
    return label;
  }));
  byId("screening-answer", HTMLButtonElement).disabled = given !== null;
  byId("screening-form", HTMLFormElement).onsubmit = (event) => {
    event.preventDefault();
    answer(Number(new FormData(byId("screening-form", HTMLFormElement)).get("screening")));
  };
}
