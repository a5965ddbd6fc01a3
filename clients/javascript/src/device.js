/**
 * The device: reads a campaign, refuses what exceeds its owner's caps, answers once, and sends until it arrives.
 *
 * Alone with its storage, and before it looks at the record, it decides by calendar, coins and ledger whether anything is
 * drawn; draw, debit and report are one write. Only then it sends.
 */
import { readNotice, reading } from "./campaign.js";
import { Coins } from "./coins.js";
import { deliver, http, PASSING, PATIENCE, problemCode } from "./http.js";
import { CAPS, changedCaps, lines, refuseBeyond, total, where } from "./ledger.js";
import { drawn } from "./mechanisms.js";
import { dayOf, daysBetween, demand, derivedId, hex, periodOf, text } from "./wire.js";

export class Device {
  #caps;
  #secret = null; // of the books that this device works with

  constructor({ collector = "", transport, caps = {}, patience, ...given }) {
    const usual = { coins: new Coins(), now: () => new Date(), sleep: (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds)), ignoreSignals: false, explained: () => "", reading };
    this.prefix = collector && collector.replace(/\/*$/, "/"); // no two collectors see one id
    Object.assign(this, usual, given, { transport: transport ?? http(this.prefix), patience: { ...PATIENCE, ...patience } });
    this.#caps = caps;
  }

  async explain(name) {
    const notice = await this.#shown(name);
    const { campaign, round, durable } = notice;
    return this.#books(async (state, day) => {
      const consent = state.consents[campaign.series]?.state ?? null;
      const agreed = consent === "given" && isAgreed(state, campaign);
      const trial = structuredClone(state); // as if it were agreed to
      agree(trial, campaign);
      const asks = round && !found(state, notice);
      const refusal = asks ? await this.#answer(trial, day, notice, {}, "", true).then(() => null, ({ code }) => code) : null;
      const clock = day > this.#today() ? day : null;
      const spent = lines(state, campaign, day, this.reading.aside?.(state, campaign, day));
      const told = { name, hash: campaign.hash, consent, agreed, durable, clock, refusal, spent, notice };
      return { ...told, text: this.explained(told), epsilon: round && text(round.cost) };
    });
  }

  async consent(name, shown) {
    this.#refuseSignal();
    const { campaign } = await this.#shown(name, shown);
    await this.#books((state) => agree(state, campaign));
  }

  withdraw(name) {
    const series = this.prefix + name;
    return this.#books(({ consents, entries }, day) => {
      const { campaign } = consents[series] ?? {};
      consents[series] = { ...consents[series], state: "withdrawn", paused: { day, campaign } };
      const unsent = where(entries, { series, state: "waiting" });
      for (const one of unsent) Object.assign(one, { state: "withdrawn", payload: null, token: null });
      return unsent.length;
    });
  }

  async preview(name, record) {
    const notice = await this.#shown(name);
    demand(notice.round, "round/closed");
    const { campaign: { schema }, round: { mechanism } } = notice;
    const [seen, id] = [schema.look(record, mechanism.cap), this.coins.bytes(16)];
    return { ...seen, report: { id: hex(id), payload: drawn(mechanism, seen.pairs, id, this.coins) } };
  }

  async ledger() {
    return (await this.export()).entries;
  }

  export() {
    return this.#books(({ secret, ...state }) => ({ ...state, entries: state.entries.map(({ token, ...one }) => one) }));
  }

  async limit(changes, loosen = false) {
    await this.#books((state) => (state.caps = changedCaps(state.caps, changes, loosen)));
  }

  async trustClock() {
    await this.#books((state, day) => (state.latest = day));
  }

  async report(name, record, { token = null, shown } = {}) {
    this.#refuseSignal();
    await this.#books((state) => need(state, this.prefix + name));
    demand(token === null || /^[!-~]{1,1000}$/.test(token), "enrolment/token");
    const notice = await this.#shown(name, shown);
    const since = Date.now();
    if (!notice.round) {
      const between = ["open", "draft"].includes(notice.state);
      const days = notice.campaign.document.rounds.map((window) => window.opens).sort();
      return outcome({ name, state: between ? "between" : "closed", opens: days.find((day) => between && day > this.#today()) });
    }
    const [entry, told] = await this.#books((state, day) => this.#answer(state, day, notice, record, token));
    if (entry?.state !== "waiting") return told;
    const { pace } = this.patience;
    if (told.used && pace) await this.sleep(pace - (((Date.now() - since) / 1000) % pace));
    return this.#send(entry, told);
  }

  async flush() {
    const told = [];
    for (const entry of await this.#books(({ entries }) => where(entries, { state: "waiting" }))) {
      if (entry.series !== this.prefix + entry.name) continue;
      const one = await this.#send(entry, outcome(entry));
      told.push(one);
      if (one.state === "waiting" && !PASSING.includes(one.code)) break;
    }
    return told;
  }

  /** First calendar and terms decide, then the ledger, and only then the record; `dry` draws nothing. */
  async #answer(state, day, notice, record, token, dry = false) {
    this.#refuseSignal();
    const [{ campaign, round, durable }, today] = [notice, this.#today()];
    const [{ name, series, terms, hash: own, schema, document, until }, { mechanism }] = [campaign, round];
    need(state, series);
    demand(isAgreed(state, campaign), "campaign/changed");
    agree(state, campaign);
    demand(today >= (round.opens || today) && today <= (round.closes ?? today), "round/closed");
    round.admit?.(state);
    const earlier = found(state, notice);
    if (earlier) return renewed(earlier, token);
    demand(document.enrolment === "none" || token !== null, "enrolment/needed");
    demand(durable || document.browser, "storage/fleeting");
    demand(daysBetween(state.latest, today) <= 400, "device/clock");
    const { day: left, campaign: known } = state.consents[series].paused ?? {};
    const first = periodOf(document, day);
    const begun = (round.opens ? round.opens <= left : known === own) || (first && first <= left);
    demand(!begun, "report/withdrawn");
    state.latest = day;
    const notAsked = [null, outcome({ name, state: "not-asked", round: round.number })];
    if (document.one_in && !dry && !this.#turn(state, campaign)) return notAsked;
    const parts = first ? ["period", series, terms, first] : round.seats ? ["seat", series, own] : ["round", series, round.hash];
    const id = await derivedId(state.secret, ...parts);
    if (round.seats && !dry && !round.seats(id)) return notAsked;
    const [standing] = first ? where(state.entries, { series, terms, first }) : [];
    if (!standing) this.#pay(state, day, campaign, round);
    const { pairs, ignored } = standing ? { ignored: [] } : schema.look(record, mechanism.cap);
    const entry = {
      ...{ name, series, terms, campaign: own, schema: schema.hash, round: round.number, document: round.hash, until },
      ...{ day, first, mechanism: mechanism.name, epsilon: standing ? "0" : text(round.cost), free: Boolean(standing) },
      ...{ report: hex(id), payload: standing ? standing.payload : dry || drawn(mechanism, pairs, id, this.coins) },
      ...{ state: "waiting", code: null, token, whole: campaign.several ? document.protocol.epsilon : null },
    };
    state.entries.push(entry);
    return [entry, { ...outcome(entry), epsilon: entry.epsilon, used: !standing, ignored }];
  }

  async #send(entry, told) {
    const heard = await deliver(entry, this);
    await this.#books(({ entries }) => {
      const [kept] = where(entries, { series: entry.series, document: entry.document, state: "waiting" });
      if (kept) Object.assign(kept, heard, heard.state !== "waiting" && { token: null });
    });
    return { ...told, ...heard };
  }

  /** The first draw of a campaign must fit with all that may follow. */
  #pay(state, day, campaign, { cost }) {
    const own = where(state.entries, { series: campaign.series, campaign: campaign.hash });
    refuseBeyond(cost, [{ spent: total(own), limit: campaign.document.protocol.epsilon }]);
    const whole = campaign.several && !own.length ? campaign.epsilon : cost;
    refuseBeyond(whole, lines(state, campaign, day, this.reading.aside?.(state, campaign, day)));
  }

  #turn(state, { series, terms, hash, document: { one_in: oneIn } }) {
    const turn = (state.turns[`${series} ${terms}`] ??= { place: this.coins.below(oneIn), met: -1 });
    if (turn.campaign !== hash) Object.assign(turn, { met: turn.met + 1, campaign: hash });
    return turn.met % oneIn === turn.place;
  }

  /** A step that fails changes nothing; its day is the latest ever seen, so that a clock set back gives nothing back. */
  #books(step) {
    return this.storage.alone(async () => {
      const kept = await this.storage.read();
      const today = this.#today();
      demand(kept?.startsWith('{"keyveil":1,') ?? true, "device/file");
      const state = JSON.parse(kept) ?? { keyveil: 1, caps: CAPS, entries: [], consents: {}, turns: {}, secret: hex(this.coins.bytes(32)), latest: today };
      demand([null, state.secret].includes(this.#secret), "storage/vanished");
      if (this.#secret === null) state.caps = changedCaps(state.caps, this.#caps, kept === null);
      const result = await step(state, [today, state.latest].sort()[1]);
      const written = JSON.stringify(state);
      if (written !== kept) {
        await this.storage.write(written);
        demand((await this.storage.read()) === written, "storage/refused");
      }
      this.#secret = state.secret;
      return result;
    });
  }

  #today() {
    return dayOf(this.now());
  }

  #refuseSignal() {
    const { globalPrivacyControl, doNotTrack } = globalThis.navigator ?? {};
    demand(this.ignoreSignals || !(globalPrivacyControl === true || doNotTrack === "1"), "consent/signal");
  }

  async #shown(name, shown) {
    demand(!shown || shown.name === name, "consent/other");
    const notice = shown?.notice ?? (await readNotice((path) => this.#get(path), name, this));
    return { ...notice, durable: await this.storage.durable() };
  }

  async #get(path) {
    const answer = await this.transport.request("GET", `/v1/${path}`);
    demand(answer.status === 200, problemCode(answer) ?? "transport/status");
    return answer.body;
  }
}

function agree({ consents }, { series, terms, hash, starts, ends }) {
  consents[series] = { ...consents[series], state: "given", terms, campaign: hash, starts, ends };
}

function need({ consents }, series) {
  const { state } = consents[series] ?? {};
  demand(state !== "withdrawn", "consent/withdrawn");
  demand(state, "consent/needed");
}

/** A later campaign of a series goes on under the same terms. */
function isAgreed({ consents }, { series, hash, terms, starts, document: { every_days: days = 1 } }) {
  const { campaign = hash, ...known } = consents[series] ?? {};
  const goesOn = known.terms === terms && starts > known.ends && daysBetween(known.starts, starts) >= days;
  return campaign === hash || goesOn;
}

const found = ({ entries }, { campaign: { series, hash }, round: { number } }) => where(entries, { series, campaign: hash, round: number })[0];

/** An earlier report; a new token helps if it waits, or was refused because of its token. */
function renewed(earlier, token) {
  demand(earlier.state !== "withdrawn", "report/withdrawn");
  const again = earlier.state === "waiting" || `${earlier.code}`.startsWith("enrolment/");
  if (token !== null && again) Object.assign(earlier, { state: "waiting", token, code: null });
  return [earlier, outcome(earlier)];
}

const outcome = ({ name, state, round = null, report = null, code = null, opens = null }) =>
  ({ campaign: name, state, round, epsilon: "0", report, code, used: false, ignored: [], opens });
