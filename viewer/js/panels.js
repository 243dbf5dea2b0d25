// @ts-check
// Every panel of the viewer: what it is called, where it stands, and how it is made. A new one is a row here.

import { Bars } from "./bars.js";
import { ChoicesPanel } from "./choices.js";
import { Chosen } from "./chosen.js";
import { Beside, Compare } from "./compare.js";
import { Controls, OcclusionPanel, Regions } from "./controls.js";
import { EnoughPanel } from "./enough.js";
import { EvidencePanel } from "./evidence.js";
import { Headline } from "./headline.js";
import { Reproduce, Took } from "./help.js";
import { Rail } from "./rail.js";
import { WhatIf } from "./whatif.js";

/** @import { Stage } from "./stage.js" */
/** @import { State } from "./state.js" */
/** @import { Tokens } from "./tokens.js" */
/** @import { Host, Send, Trace } from "./types" */

/**
 * What the viewer asks of a panel. load: gets each trace. draw: is called when anything that is shown changes.
 * busy: while a run or an action goes on, nothing else can be sent. error: where it is told that an action failed
 * whose `where` is the panel's name. stale: where it is told, while α or β are moved, with which of them the
 * numbers were measured that `measured` finds in the trace.
 *
 * @typedef {{ root: HTMLElement, load?: (trace: Trace) => void, draw?: () => void, busy?: (now: boolean) => void,
 *   error?: HTMLElement, stale?: HTMLElement | HTMLElement[], measured?: (trace: Trace) => unknown }} Panel
 */

/**
 * What a panel is made with. open: shows a method's answer. The stage and the tokens are made before.
 * @typedef {{ state: State, send: Send, stage: Stage, tokens: Tokens, host: Host, open: (method: string) => void }} Around
 */

/** @typedef {"above" | "verdict" | "words" | "objects" | "measure" | "tools"} Place verdict: beside the picture; words, objects: of why; tools: of the stage, which the panel joins itself */

/** In the order in which they stand at their places. @satisfies {Record<string, { at: Place, make: (around: Around) => Panel }>} */
export const PANELS = {
  headline: { at: "above", make: () => new Headline() },
  chosen: { at: "above", make: ({ host }) => new Chosen(host.typical) },
  bars: { at: "words", make: ({ state, tokens }) => new Bars(state, tokens) },
  controls: { at: "verdict", make: ({ state, send }) => new Controls(state, send) },
  choices: { at: "verdict", make: ({ state, send, stage }) => new ChoicesPanel(state, send, stage) },
  regions: { at: "verdict", make: ({ state, send }) => new Regions(state, send) },
  whatif: { at: "tools", make: ({ state, send, stage }) => new WhatIf(state, send, stage) },
  evidence: { at: "measure", make: ({ state, send, stage }) => new EvidencePanel(state, send, stage) },
  enough: { at: "measure", make: ({ state, send, stage }) => new EnoughPanel(state, send, stage) },
  rail: { at: "objects", make: ({ state }) => new Rail(state) },
  occlusion: { at: "objects", make: ({ state, send }) => new OcclusionPanel(state, send) },
  compare: { at: "measure", make: ({ state, stage, open }) => new Compare(state, stage, open) },
  beside: { at: "measure", make: ({ state, stage }) => new Beside(state, stage) },
  took: { at: "measure", make: () => new Took() },
  reproduce: { at: "measure", make: ({ host }) => new Reproduce(host.base || "") },
};

/** @typedef {{ [K in keyof typeof PANELS]: ReturnType<(typeof PANELS)[K]["make"]> }} Panels */

/** @param {Around} around @returns {Panels} */
export const makePanels = (around) =>
  /** @type {Panels} */ (Object.fromEntries(Object.entries(PANELS).map(([name, { make }]) => [name, make(around)])));

/** The elements that stand at a place. @param {Panels} panels @param {Place} place @returns {HTMLElement[]} */
export const standing = (panels, place) =>
  /** @type {(keyof Panels)[]} */ (Object.keys(PANELS)).filter((name) => PANELS[name].at === place).map((name) => panels[name].root);
