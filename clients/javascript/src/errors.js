/** An error with a stable code, such as "budget/exceeded", and one sentence for people. */
export class KeyveilError extends Error {
  constructor(code, sentence) {
    super(sentence);
    this.code = code;
  }
}

/** Refuse unless something holds. Codes are plain words, so most need no sentence of their own. */
export function demand(holds, code, sentence = `This device does not answer: ${code.replace("/", " ")}.`) {
  if (!holds) throw new KeyveilError(code, sentence);
}
