/** Requests to a collector: nothing that tells who asks, no cookies, no referrer, no cache, no redirects. */
import { KeyveilError, refuse } from "./errors.js";

const LARGEST = 64 << 20;

/** @typedef {{status: number, headers: {get(name: string): string | null}, body: Uint8Array}} Answer */

export class HttpTransport {
  /** @param {string} address of the collector, such as https://collector.example */
  constructor(address, timeout = 30_000) {
    const at = new URL(address);
    const local = ["localhost", "127.0.0.1", "[::1]"].includes(at.hostname) || at.hostname.endsWith(".localhost");
    if (at.username || at.password) refuse("transport/address", "The collector's address must not hold a password.");
    if (at.protocol !== "https:" && !(at.protocol === "http:" && local)) refuse("transport/plain", "Another machine is asked over https.");
    this.address = `${at.origin}${at.pathname.replace(/\/+$/, "")}`;
    this.timeout = timeout;
  }

  /** @returns {Promise<Answer>} */
  async request(method, path, body = undefined, headers = {}) {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), this.timeout);
    try {
      const answer = await fetch(this.address + path, {
        ...{ method, body, headers, signal: stop.signal, credentials: "omit" },
        ...{ referrerPolicy: "no-referrer", cache: "no-store", redirect: "error", keepalive: false },
      });
      const pieces = [];
      let size = 0;
      for (let reader = answer.body?.getReader(); reader; ) {
        const { done, value } = await reader.read();
        if (done) break;
        pieces.push(value);
        size += value.length;
        if (size > LARGEST) refuse("transport/too-large", `The collector's answer exceeds ${LARGEST} bytes.`);
      }
      const whole = new Uint8Array(size);
      pieces.reduce((at, piece) => (whole.set(piece, at), at + piece.length), 0);
      return { status: answer.status, headers: answer.headers, body: whole };
    } catch (reason) {
      if (reason instanceof KeyveilError) throw reason;
      return refuse("transport/unreachable", "The collector did not answer.");
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
  }
}

/** The code of a problem document (RFC 9457), if an answer is one. */
export function problemCode(answer) {
  if (!/^application\/problem\+json\s*(;|$)/.test(answer.headers.get("content-type") ?? "")) return null;
  try {
    const { code } = JSON.parse(new TextDecoder().decode(answer.body));
    return /^[a-z0-9-]{1,40}\/[a-z0-9-]{1,40}$/.test(code) ? code : null;
  } catch {
    return null;
  }
}
