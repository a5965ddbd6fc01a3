/** An error with a stable code, such as "budget/exceeded", and one sentence for people. */
export class KeyveilError extends Error {
  /** @param {string} code @param {string} sentence */
  constructor(code, sentence) {
    super(sentence);
    this.name = "KeyveilError";
    this.code = code;
  }
}

/** @param {string} code @param {string} sentence @returns {never} */
export function refuse(code, sentence) {
  throw new KeyveilError(code, sentence);
}
