/** The device (docs/device.md): draw, debit and report are one write; only then it sends. */
import { reading, readNotice } from "./campaign.js";
import { Coins } from "../coins.js";
import { http, PASSING, PATIENCE, problem, send } from "./http.js";
import { CAPS, capsOf, lines, refuseBeyond, where } from "./ledger.js";
import { drawn } from "../mechanisms.js";
import { dayOf, hex, idOf, must, period, span, text } from "../wire.js";

export class Device {
  #caps;
  #secret; // of the books that this device works with
  coins = new Coins();
  now = () => new Date();
  sleep = (time) => new Promise((done) => setTimeout(done, 1000 * time));
  ignoreSignals = false;
  explained = () => "";
  reading = reading;

  constructor({ collector = "", caps = {}, patience, ...given }) {
    this.prefix = collector && collector.replace(/\/*$/, "/"); // no two collectors see one id
    this.patience = { ...PATIENCE, ...patience };
    Object.assign(this, given);
    this.transport ??= http(this.prefix);
    this.#caps = caps;
  }

  async explain(name) {
    const notice = await this.#shown(name);
    const { campaign, round, durable } = notice;
    return this.#books(async (state, day) => {
      const { state: consent = null } = state.consents[campaign.series] ?? {};
      const agreed = consent === "given" && isAgreed(state, campaign);
      const trial = structuredClone(state); // as if it were agreed to
      agree(trial, campaign);
      const asks = round && !found(state, notice);
      const refusal = asks ? await this.#answer(trial, day, notice, {}, null, true).then(() => null, ({ code }) => code) : null;
      const clock = day > this.#today() ? day : null;
      const spent = lines(state, campaign, day, this.reading);
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
      return where(entries, { series, state: "waiting" }).map((one) => Object.assign(one, { state: "withdrawn", payload: null, token: null })).length;
    });
  }

  async preview(name, record) {
    const notice = await this.#shown(name);
    must(notice.round, "round/closed");
    const { mechanism } = notice.round;
    const told = notice.campaign.schema.look(record, mechanism.cap);
    const id = this.coins.bytes(16);
    return { ...told, report: { id: hex(id), payload: drawn(mechanism, told.pairs, id, this.coins) } };
  }

  async ledger() {
    return (await this.export()).entries;
  }

  export() {
    return this.#books(({ secret, ...state }) => ({ ...state, entries: state.entries.map(({ token, ...one }) => one) }));
  }

  async limit(changes, loose = false) {
    await this.#books((state) => (state.caps = capsOf(state.caps, changes, loose)));
  }

  async trustClock() {
    await this.#books((state, day) => (state.latest = day));
  }

  async report(name, record, { token = null, shown } = {}) {
    this.#refuseSignal();
    await this.#books((state) => need(state, this.prefix + name));
    must(token === null || /^[!-~]{1,1000}$/.test(token), "enrolment/token");
    const notice = await this.#shown(name, shown);
    const since = new Date();
    if (!notice.round) {
      const open = ["open", "draft"].includes(notice.state);
      const days = notice.campaign.document.rounds.map((window) => window.opens).sort();
      return outcome({ name, state: open ? "between" : "closed", opens: days.find((day) => open && day > this.#today()) });
    }
    const [entry, told] = await this.#books((state, day) => this.#answer(state, day, notice, record, token));
    if (entry?.state !== "waiting") return told;
    const { pace } = this.patience;
    if (told.used && pace) await this.sleep(pace - (((new Date() - since) / 1000) % pace));
    return this.#send(entry, told);
  }

  async flush() {
    const told = [];
    for (const entry of await this.#books(({ entries }) => where(entries, { state: "waiting" }).filter((one) => one.series === this.prefix + one.name))) {
      const one = await this.#send(entry, outcome(entry));
      told.push(one);
      if (one.state === "waiting" && !PASSING.includes(one.code)) break;
    }
    return told;
  }

  /** First calendar and terms decide, then the ledger, and only then the record; `dry` draws nothing. */
  async #answer(state, day, notice, record, token, dry = false) {
    this.#refuseSignal();
    const { campaign, round, durable } = notice;
    const { name, series, terms, hash: own, schema, document, until } = campaign;
    const { mechanism } = round;
    need(state, series);
    must(isAgreed(state, campaign), "campaign/changed");
    agree(state, campaign);
    const today = this.#today();
    must(today >= round.opens && !(today > round.closes), "round/closed");
    round.admit?.(state);
    const earlier = found(state, notice);
    if (earlier) {
      must(earlier.state !== "withdrawn", "report/withdrawn");
      const again = earlier.state === "waiting" || /^enrolment/.test(earlier.code); // a new token helps
      if (token && again) Object.assign(earlier, { state: "waiting", token, code: null });
      return [earlier, outcome(earlier)];
    }
    must(document.enrolment === "none" || dry || token, "enrolment/needed");
    must(durable || document.browser, "storage/fleeting");
    must(span(state.latest, today) <= 400, "device/clock");
    const { paused } = state.consents[series];
    const first = period(document, day);
    must(!(round.opens ? round.opens <= paused?.day : paused?.campaign === own) && !(first <= paused?.day), "report/withdrawn");
    state.latest = day;
    const silent = [null, outcome({ name, state: "not-asked", round: round.number })];
    if (document.one_in && !dry && !this.#turn(state, campaign)) return silent;
    const id = await idOf(state.secret, ...(first ? ["period", series, terms, first] : (round.seat ?? ["round", series, round.hash])));
    if (round.seats && !dry && !round.seats(id)) return silent;
    const kept = first && where(state.entries, { series, terms, first })[0];
    if (!kept) refuseBeyond(round.due?.(state) ?? round.cost, lines(state, campaign, day, this.reading));
    const { pairs, ignored } = schema.look(kept ? {} : record, mechanism.cap);
    const entry = {
      ...{ name, series, terms, campaign: own, schema: schema.hash, round: round.number, document: round.hash, until },
      ...{ day, first, mechanism: mechanism.name, epsilon: kept ? "0" : text(round.cost), free: !!kept },
      ...{ report: hex(id), payload: kept ? kept.payload : dry || drawn(mechanism, pairs, id, this.coins) },
      ...{ state: "waiting", code: null, token, whole: round.whole ?? null },
    };
    state.entries.push(entry);
    return [entry, { ...outcome(entry), epsilon: entry.epsilon, used: !kept, ignored }];
  }

  async #send(entry, told) {
    const heard = await send(entry, this);
    await this.#books(({ entries }) => {
      const [kept] = where(entries, { series: entry.series, document: entry.document, state: "waiting" });
      if (kept) Object.assign(kept, heard, heard.state !== "waiting" && { token: null });
    });
    return { ...told, ...heard };
  }

  #turn(state, { series, terms, hash, document: { one_in: every } }) {
    const turn = (state.turns[`${series} ${terms}`] ??= { place: this.coins.below(every), met: -1 });
    if (turn.campaign !== hash) Object.assign(turn, { met: turn.met + 1, campaign: hash });
    return turn.met % every === turn.place;
  }

  /** A step that fails changes nothing; its day is the latest ever seen, so that a clock set back gives nothing back. */
  #books(act) {
    return this.storage.alone(async () => {
      const kept = await this.storage.read();
      const today = this.#today();
      must(kept === null || /^{"keyveil":1,/.test(kept), "device/file");
      const state = JSON.parse(kept) ?? { keyveil: 1, caps: CAPS, entries: [], consents: {}, turns: {}, secret: hex(this.coins.bytes(32)), latest: today };
      must(!this.#secret || this.#secret === state.secret, "storage/vanished");
      if (!this.#secret) state.caps = capsOf(state.caps, this.#caps, !kept);
      const told = await act(state, [today, state.latest].sort()[1]);
      const text = JSON.stringify(state);
      if (text !== kept) {
        await this.storage.write(text);
        must((await this.storage.read()) === text, "storage/refused");
      }
      this.#secret = state.secret;
      return told;
    });
  }

  #today() {
    return dayOf(this.now());
  }

  #refuseSignal() {
    const { globalPrivacyControl, doNotTrack } = globalThis.navigator ?? {};
    must(this.ignoreSignals || !(globalPrivacyControl === true || doNotTrack === "1"), "consent/signal");
  }

  async #shown(name, shown) {
    must(!shown || shown.name === name, "consent/other");
    return { ...(shown?.notice ?? (await readNotice((path) => this.#get(path), name, this))), durable: await this.storage.durable() };
  }

  async #get(path) {
    const answer = await this.transport.request("GET", `/v1/${path}`);
    must(answer.status === 200, problem(answer) ?? "transport/status");
    return answer.body;
  }
}

function agree({ consents }, { series, terms, hash, starts, ends }) {
  consents[series] = { ...consents[series], state: "given", terms, campaign: hash, starts, ends };
}

function need({ consents }, series) {
  must(consents[series]?.state !== "withdrawn", "consent/withdrawn");
  must(consents[series], "consent/needed");
}

/** A later campaign of a series goes on under the same terms. */
function isAgreed({ consents }, { series, hash, terms, starts, document: { every_days: days = 1 } }) {
  const known = consents[series] ?? { campaign: hash };
  return known.campaign === hash || (known.terms === terms && starts > known.ends && span(known.starts, starts) >= days);
}

const found = ({ entries }, { campaign, round }) => where(entries, { series: campaign.series, campaign: campaign.hash, round: round.number })[0];

const outcome = ({ name, state, round = null, report = null, code = null, opens = null }) =>
  ({ campaign: name, state, round, epsilon: "0", report, code, used: false, ignored: [], opens });
