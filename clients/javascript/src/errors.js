/** An error with a stable code, such as "budget/exceeded", and one sentence for people. */
export class KeyveilError extends Error {
  constructor(code, sentence) {
    super(sentence);
    this.name = "KeyveilError";
    this.code = code;
  }
}

/** Refuse with a code; without a sentence of its own, the refusal names the rule of docs/wire.md that was broken. */
export function refuse(code, sentence = `What is asked breaks the rule ${code}, so it is not answered.`) {
  throw new KeyveilError(code, sentence);
}

/** Refuse unless something holds. */
export const demand = (holds, code, sentence) => holds || refuse(code, sentence);
