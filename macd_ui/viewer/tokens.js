// Answers as aligned token strips, and what stood behind one token under both views.

class Tokens {
  constructor(state) {
    this.state = state;
    this.strips = el("div", { class: "mv-strips" });
    this.verdict = el("p", { class: "mv-verdict" });
    this.table = el("div", { class: "mv-table" });
    this.root = el("section", { class: "mv-tokens", "aria-label": "Answers" },
      el("h3", {}, "Answers"), this.verdict, this.strips, this.table);
  }

  answers() {
    const { baseline, macd } = this.state.trace.answers;
    return [baseline, macd].filter(Boolean);
  }

  divergence() {
    const [base, macd] = this.answers();
    if (!base || !macd) return -1;
    const n = Math.min(base.tokens.length, macd.tokens.length);
    for (let i = 0; i < n; i++) if (base.tokens[i].token !== macd.tokens[i].token) return i;
    return -1;
  }

  load(trace) {
    const answers = this.answers();
    const parts = this.divergence();
    this.strips.replaceChildren(...answers.map((answer) => this.strip(answer, parts)));
    this.verdict.textContent = this.say(answers, parts);
    this.draw();
  }

  say(answers, parts) {
    if (answers.length < 2 || !answers[1].finished) return answers.length ? "decoding …" : "";
    if (parts < 0) return "Both ways of decoding give the same answer.";
    return `The answers part at token ${parts + 1}.`;
  }

  strip(answer, parts) {
    const name = answer.method === "macd" ? "MACD" : "Baseline";
    return el("div", { class: "mv-strip", "data-method": answer.method },
      el("span", { class: "mv-strip-name" }, name),
      el("div", { class: "mv-strip-tokens" }, answer.tokens.map((step, i) =>
        el("button", {
          type: "button", "data-index": i,
          class: `mv-token${i === parts ? " mv-parts" : ""}`,
          title: i === parts ? "here the answers part" : `token ${i + 1}, id ${step.token}`,
          on: { click: () => this.state.set({ token: i, method: answer.method }) },
        }, visible(step.text)))));
  }

  draw() {
    const { trace, token, method } = this.state;
    for (const button of this.strips.querySelectorAll(".mv-token")) {
      const mine = button.closest(".mv-strip").dataset.method === method;
      button.setAttribute("aria-pressed", String(mine && Number(button.dataset.index) === token));
    }
    const answer = trace.answers[method];
    const step = answer && answer.tokens[token];
    this.table.replaceChildren(...(step ? this.rows(answer, step) : []));
  }

  rows(answer, step) {
    const two = Boolean(step.counter);
    const { rows, chosen } = rescore(step, two ? answer.alpha : 0, two ? answer.beta : 0, answer.head);
    const order = rows.map((_, i) => i).sort((a, b) => rows[b].score - rows[a].score || rows[b].base - rows[a].base);
    const shown = order.slice(0, 8);
    const widest = Math.max(...shown.map((i) => Math.abs(rows[i].difference)), 1e-9);
    const head = two
      ? ["token", "logit V", "logit V_d", "difference", "score", "p before", "p after", "head"]
      : ["token", "logit V", "p"];
    const note = two
      ? `Token ${step.index + 1}: score = (1+α)·logit(V) − α·logit(V_d), α ${answer.alpha}, β ${answer.beta}`
      : `Token ${step.index + 1} of the baseline: greedy on the video as it is`;
    return [
      el("p", { class: "mv-note" }, note),
      el("div", { class: "mv-scroll", tabindex: "0", role: "region", "aria-label": "Candidates" },
        el("table", {},
          el("thead", {}, el("tr", {}, head.map((h) => el("th", { scope: "col" }, h)))),
          el("tbody", {}, shown.map((i) => this.row(rows[i], i === chosen, two, widest, step))))),
    ];
  }

  row(r, chosen, two, widest, step) {
    const bar = el("span", { class: "mv-diff" }, el("span", {
      class: r.difference >= 0 ? "mv-more" : "mv-less",
      style: {
        width: `${(50 * Math.abs(r.difference)) / widest}%`,
        [r.difference >= 0 ? "left" : "right"]: "50%",
      },
    }));
    const name = el("th", { scope: "row", class: "mv-piece" }, visible(r.text),
      r.id === step.token ? el("span", { class: "mv-chosen" }, " ← chosen") : null);
    const cells = two
      ? [r.base.toFixed(2), r.counter.toFixed(2), el("span", {}, signed(r.difference), bar),
        r.inside ? r.score.toFixed(2) : "−∞", percent(r.before), percent(r.after),
        r.inside ? "in" : "out"]
      : [r.base.toFixed(2), percent(r.before)];
    return el("tr", { class: `${chosen ? "mv-top" : ""}${r.inside ? "" : " mv-out"}` },
      name, cells.map((c) => el("td", {}, c)));
  }
}
