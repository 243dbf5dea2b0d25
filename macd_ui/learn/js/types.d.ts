// What Python sends (macd_ui/learn/site.py) and what the modules hand to each other.

import type { Payload } from "../../../viewer/js/types";

/** A text, or [kind, text], or ["term", text, term]; see markup.py. */
export type Span = string | string[];
export type Block = ["p" | "formula", Span[]] | ["ul", Span[][]];

export interface Prediction { question: Span[]; options: Span[][]; answer: number; explanation: Block[] }

export interface Step {
  text: Block[]; view: string; light: string; show: string[]; widget: string;
  settings: Record<string, any>; task: Span[]; done: string; waits: boolean;
}

export interface Chapter {
  name: string; title: string; goal: string; minutes: number; text: Block[];
  prediction: Prediction | null; steps: Step[]; quiz: string; opening: Step | null;
}

export interface Part { question: string; truth: string; debug: string }

export interface TableRow {
  name: string; figures: Record<string, string>; verdict: number; example: number[] | null; neither: number;
}

export interface Course {
  edition: string; strings: Record<string, string>; glossary: Record<string, string>;
  chapters: Chapter[]; lights: Record<string, string>; parts: Record<string, Part>; home: string;
  table: TableRow[]; changes: Record<string, Record<string, [number, number, number]>>;
  /** MACD minus random masks on the same questions, in points, by kind of question. */
  paired: Record<string, [number, number, number]>;
}

/** What an example's file holds: the viewer's payload and the measured effects. */
export interface PartData { payload: Payload; lean: Lean | null }

export interface Lean {
  labels: string[]; answer: string; gradient: number[]; level: number[]; odds: number[];
}

export interface Frames {
  question: string; truth: string; usual: string; label: string; words: string[]; rows: number[][];
  frames: string[]; grid: number[]; groups: number[][]; size: number[]; tokens: string[];
}

export interface Fade {
  opacities: number[]; clips: number; together: number[]; alone: number[]; asked: string;
  companion: string; question: string; pictures: { together: string[]; alone: string[] };
}

export interface Word { text: string; texts: string[]; base: number[]; counter: number[] | null }
export interface Said { text: string; tokens: Word[] }
/** Of the quizzes. drawn: the truth in a sentence; clear: frames in which every object is easy to see. */
export interface Item {
  kind: "contrast" | "gradient" | "levels" | "controls";
  question: string; frames: string[]; behind: string[]; objects: string[]; alpha: number; beta: number;
  answers: Record<string, Said>; truth: string; drawn: string;
  /** Of "contrast" alone; clear: of drawn ones. */
  clear?: string[]; outcome: "right" | "same" | "wrong";
  /** Of the others: boxes by object and frame, what was measured, and the options as places of objects. */
  boxes?: (number[] | null)[][]; gradient: number[]; level: number[]; odds: number[]; random: [number, number];
  controls: string[]; options: number[][]; right: number;
  /** What the controls say of the choice of objects: roles.py, choice_by_controls. */
  choice: "matters" | "open" | "any" | "all" | "";
}
export interface Quiz { before: Item[]; after: Item[]; real: Item[] }

/** One locked prediction. */
export interface Locked {
  choice: number; confidence: number; right: boolean; at: string;
  /** Of a class: hands by option. The choice is that of most, the confidence their share. */
  counts?: number[];
}
export interface Kept {
  edition: string; answers: Record<string, Locked>; done: Record<string, boolean>; at: string;
  /** Ids of the objects that were chosen in a task, by the task's place. */
  chosen: Record<string, number[]>;
  /** Whether a class answers by a show of hands. */
  hands: boolean;
}

/** What a widget gets. */
export interface Place {
  root: HTMLElement; step: Step; course: Course; data: Record<string, any>;
  say: Say; done: () => void;
  /** What was chosen in this task before, and how to keep a choice. */
  chosen: number[] | undefined; choose: (objects: number[]) => void;
  /** No model runs here: the task is left out with its text, why is said, and the step counts as done. */
  skip: () => void;
}
export type Say = (name: string, values?: Record<string, string | number>) => string;
