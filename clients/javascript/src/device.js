/**
 * The device: reads a campaign, refuses what exceeds its owner's caps, answers once, and sends until it arrives.
 *
 * The guarantee rests on the order of steps. Alone with its storage, and before it looks at the record, the device decides
 * by calendar, coins and ledger whether anything is drawn; draw, debit and report are one write. Only then it sends.
 */
import { daysBetween, derivedId, hex, periodOf } from "./canonical.js";
import { pad, reportBytes } from "./codecs.js";
import { Coins } from "./coins.js";
import { demand } from "./errors.js";
import { text } from "./exact.js";
import { CAPS, changedCaps, lines, ofCampaign, refuseBeyond } from "./ledger.js";
import { NAME, readNotice } from "./notice.js";
import { HttpTransport, problemCode } from "./transport.js";
import { deliver, PASSING, PATIENCE } from "./upload.js";

const MOST_JUMP = 400; // days that a clock may be ahead of the latest day seen

/** New books: `entries` are ledger and outbox in one, all else is by series, or by series and terms or campaign. */
const EMPTY = { keyveil: 1, caps: CAPS, entries: [], consents: {}, met: {}, turns: {} };

export class Device {
  #caps;
  #secret = null; // of the books that this device works with

  constructor({ collector = "", transport = new HttpTransport(collector), caps = {}, patience, ...given }) {
    const usual = { coins: new Coins(), now: () => new Date(), sleep: pause, ignoreSignals: false, explained: () => "" };
    Object.assign(this, usual, given, { transport, patience: { ...PATIENCE, ...patience } });
    this.prefix = collector && `${collector.replace(/\/+$/, "")}/`; // of every series, so that no two collectors see one id
    this.#caps = caps;
  }

  // -- what the owner sees and decides

  async explain(name) {
    const notice = await this.#shown(name);
    const { campaign, round, durable } = notice;
    return this.#books(async (state) => {
      const { state: consent = null } = state.consents[campaign.series] ?? {};
      const agreed = consent === "given" && !(await sentenceOf(() => refuseChanged(state, campaign)));
      const asks = round && !found(state, notice);
      const trial = structuredClone(state); // what an answer would do, as if it were agreed to
      agree(trial, campaign);
      const refusal = await sentenceOf(() => this.#refuseSignal() ?? (asks && this.#answer(trial, notice, {}, "", true)));
      const remarks = [
        !durable && "This browser may forget what was spent: each clearing of its data can cost one more epsilon a round.",
        state.latest > this.#today() && `The clock was once at ${state.latest}: until then no period of a cap ends.`,
      ].filter(Boolean);
      const spent = lines(state, campaign, this.#day(state));
      const told = { name, hash: campaign.hash, consent, agreed, durable, remarks, refusal, spent, notice };
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
    return this.#books((state) => {
      const known = state.consents[series];
      state.consents[series] = { ...known, state: "withdrawn", paused: { day: this.#day(state), campaign: known?.campaign } };
      const unsent = state.entries.filter((one) => one.series === series && one.state === "waiting");
      for (const one of unsent) Object.assign(one, { state: "withdrawn", payload: null, token: null });
      return unsent.length;
    });
  }

  async preview(name, record) {
    const notice = await this.#read(name);
    demand(notice.round, "round/closed");
    const [seen, id] = [look(notice, record), this.coins.bytes(16)];
    return { ...seen, report: { id: hex(id), payload: drawn(notice.round, seen.pairs, id, this.coins) } };
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
    await this.#books((state) => (state.latest = this.#day(state)));
  }

  // -- reporting

  async report(name, record, { token = null, shown } = {}) {
    this.#refuseSignal();
    await this.#books((state) => need(state, this.prefix + name));
    demand(token === null || /^[\x21-\x7e]{1,1000}$/.test(token), "enrolment/token");
    const notice = await this.#shown(name, shown);
    const since = Date.now();
    if (!notice.round) {
      const later = notice.campaign.document.rounds.map((window) => window.opens).filter((day) => day > this.#today());
      const between = ["open", "draft"].includes(notice.state);
      return outcome(between ? { name, state: "between", opens: later.sort()[0] } : { name, state: "closed" });
    }
    const [entry, told] = await this.#books((state) => this.#answer(state, notice, record, token));
    if (entry?.state !== "waiting") return told;
    const { pace } = this.patience;
    if (told.used && pace) await this.sleep(pace - (((Date.now() - since) / 1000) % pace));
    return this.#send(entry, told);
  }

  async flush() {
    const told = [];
    for (const entry of await this.#books((state) => state.entries)) {
      if (entry.state !== "waiting" || entry.series !== this.prefix + entry.name) continue;
      const one = await this.#send(entry, outcome(entry));
      told.push(one);
      if (one.state === "waiting" && !PASSING.includes(one.code)) break;
    }
    return told;
  }

  /** First calendar and terms decide, then the ledger, and only then the record; `dry` draws nothing. */
  async #answer(state, notice, record, token, dry = false) {
    const { campaign, round } = notice;
    const { name, series, terms, hash, document } = campaign;
    need(state, series);
    refuseChanged(state, campaign);
    agree(state, campaign);
    this.#refuseClosed(notice);
    refuseOutOfOrder(state, notice);
    const earlier = found(state, notice);
    if (earlier) return renewed(earlier, token);
    demand(document.enrolment === "none" || token !== null, "enrolment/needed");
    this.#refuseUntimely(state, notice);
    const day = (state.latest = this.#day(state));
    const notAsked = [null, outcome({ name, state: "not-asked", round: round.number })];
    if (document.one_in && !dry && !this.#turn(state, campaign)) return notAsked;
    const { first = null } = periodOf(document, day) ?? {};
    const parts = first ? ["period", series, terms, first] : round.seats ? ["seat", series, hash] : ["round", series, round.hash];
    const id = await derivedId(state.secret, ...parts);
    if (round.seats && !dry && !round.seats(id)) return notAsked;
    const standing = first && state.entries.find((one) => one.series === series && one.terms === terms && one.first === first);
    if (!standing) this.#pay(state, notice);
    const { pairs, ignored } = standing ? { ignored: [] } : look(notice, record);
    const { payload } = standing ?? { payload: dry ? "" : drawn(round, pairs, id, this.coins) };
    const { name: mechanism, fingerprint } = round.mechanism;
    const entry = {
      ...{ name, series, campaign: hash, schema: campaign.schema.hash, terms, round: round.number, document: round.hash },
      ...{ day, mechanism, fingerprint: hex(fingerprint), epsilon: standing ? "0" : text(round.cost), free: Boolean(standing) },
      ...{ report: hex(id), payload, first, token, state: "waiting", code: null, attempts: 0 },
      ...{ whole: campaign.several ? document.protocol.epsilon : null, until: campaign.until },
    };
    state.entries.push(entry);
    return [entry, { ...outcome(entry), epsilon: entry.epsilon, used: !standing, ignored }];
  }

  async #send(entry, told) {
    const { state, code, attempts } = await deliver(entry, this);
    await this.#books(({ entries }) => {
      const kept = entries.find((one) => one.series === entry.series && one.document === entry.document && one.state === "waiting");
      if (kept) Object.assign(kept, { state, code, attempts: kept.attempts + attempts, token: state === "waiting" ? kept.token : null });
    });
    return { ...told, state, code };
  }

  // -- what refuses

  #refuseClosed({ campaign, round }) {
    const { closes = campaign.until } = campaign.document.rounds[round.number - 1] ?? {};
    const today = this.#today();
    demand(today >= openedOn(campaign, round) && today <= (closes ?? today), "round/closed");
  }

  #refuseUntimely(state, { campaign, round, durable }) {
    const { series, document, hash } = campaign;
    demand(durable || document.browser, "storage/fleeting", "This campaign is not for browsers that may forget what was spent.");
    demand(daysBetween(state.latest, this.#today()) <= MOST_JUMP, "device/clock", "The clock is far ahead: set it, or say that it is right.");
    const { day, campaign: known } = state.consents[series]?.paused ?? {};
    const [period, opened] = [periodOf(document, this.#day(state)), openedOn(campaign, round)];
    const begun = (opened ? opened <= day : known === hash) || period?.first <= day;
    demand(!begun, "report/withdrawn", `Consent was withdrawn on ${day}: what had begun by then is not answered.`);
  }

  /** The first draw of a campaign must fit with all that may follow. */
  #pay(state, { campaign, round }) {
    const own = ofCampaign(state, campaign);
    refuseBeyond(round.cost, [own]);
    refuseBeyond(campaign.several && !own.count ? campaign.epsilon : round.cost, lines(state, campaign, this.#day(state)));
  }

  /** One coin for a series, then counting. */
  #turn(state, { series, terms, hash, document: { one_in: oneIn } }) {
    const turn = (state.turns[`${series} ${terms}`] ??= { place: this.coins.below(oneIn), met: -1 });
    if (turn.campaign !== hash) Object.assign(turn, { met: turn.met + 1, campaign: hash });
    return turn.met % oneIn === turn.place;
  }

  // -- storage, clock and signals

  /** Alone with the books; a step that fails changes nothing. */
  #books(step) {
    return this.storage.alone(async () => {
      const kept = await this.storage.read();
      const day = this.#today();
      const state = kept === null ? structuredClone({ ...EMPTY, secret: hex(this.coins.bytes(32)), since: day, latest: day }) : opened(kept);
      demand([null, state.secret].includes(this.#secret), "storage/vanished");
      if (this.#secret === null) state.caps = changedCaps(state.caps, this.#caps, kept === null);
      const result = await step(state);
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
    return this.now().toISOString().slice(0, 10);
  }

  /** The latest day ever seen: setting the clock back gives no budget back. */
  #day(state) {
    return [this.#today(), state.latest].sort()[1];
  }

  #refuseSignal() {
    const { globalPrivacyControl, doNotTrack } = globalThis.navigator ?? {};
    const asked = !this.ignoreSignals && (globalPrivacyControl === true || doNotTrack === "1");
    demand(!asked, "consent/signal", "This browser asks not to be tracked (Global Privacy Control or Do Not Track).");
  }

  async #shown(name, shown) {
    demand(!shown || shown.name === name, "consent/other");
    return { ...(shown?.notice ?? (await this.#read(name))), durable: await this.storage.durable() };
  }

  async #read(name) {
    demand(NAME.test(name), "campaign/name");
    const get = async (path) => {
      const answer = await this.transport.request("GET", `/v1/${path}`, undefined, { Accept: "application/json" });
      demand(answer.status === 200, problemCode(answer) ?? "transport/status", `The collector answered ${answer.status}.`);
      return answer.body;
    };
    const notice = await readNotice(get, name, this.mechanisms);
    notice.campaign.series = this.prefix + name;
    return notice;
  }
}

const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

function look({ campaign: { schema }, round: { mechanism } }, record) {
  const { pairs, ignored } = schema.look(record);
  const sentence = `Of ${pairs.length} pairs only ${mechanism.cap} count, chosen at random.`;
  return { pairs, ignored: pairs.length > mechanism.cap ? [...ignored, { why: "surplus", key: "", sentence }] : ignored };
}

/** The padded payload of a new report: the only place where randomness is drawn for a record. */
function drawn({ mechanism }, pairs, id, coins) {
  const payload = mechanism.encode(mechanism.respond(pairs, id, coins), id);
  return hex(pad(payload, reportBytes(mechanism.codec), mechanism.codec.varies));
}

function opened(kept) {
  const state = /^\{"keyveil":1,.*\}$/s.test(kept) && JSON.parse(kept);
  demand(state, "device/file");
  return state;
}

function agree({ consents }, { series, terms, hash, starts, ends }) {
  consents[series] = { ...consents[series], state: "given", terms, campaign: hash, starts, ends };
}

function need({ consents }, series) {
  const { state: consent } = consents[series] ?? {};
  demand(consent !== "withdrawn", "consent/withdrawn", "Consent was withdrawn; it can be given again.");
  demand(consent, "consent/needed", "Nobody has agreed to this campaign yet: explain it, then consent.");
}

/** A later campaign of a series goes on under the same terms. */
function refuseChanged({ consents }, { series, hash, terms, starts, document: { every_days: days = 1 } }) {
  const { campaign = hash, ...known } = consents[series] ?? {};
  const goesOn = known.terms === terms && known.ends && starts > known.ends && daysBetween(known.starts, starts) >= days;
  demand(campaign === hash || goesOn, "campaign/changed", "This is not what was agreed to: show it and consent again.");
}

function refuseOutOfOrder({ met }, { campaign: { series, hash }, round }) {
  const seen = (met[`${series} ${hash}`] ??= {});
  demand((seen[round.number] ??= round.hash) === round.hash, "round/changed");
  demand(Math.max(...Object.keys(seen)) === round.number, "round/order");
}

const found = ({ entries }, { campaign: { series, hash }, round: { number } }) =>
  entries.find((one) => one.series === series && one.campaign === hash && one.round === number);

/** The first day on which a round could have been open; rounds open in their order. */
const openedOn = ({ document }, { number }) =>
  document.rounds.slice(0, number).map((window) => window.opens ?? "").sort().at(-1);

/** The report that was made before; a new token helps if it waits, or was refused because of its token. */
function renewed(earlier, token) {
  demand(earlier.state !== "withdrawn", "report/withdrawn");
  const again = earlier.state === "waiting" || `${earlier.code}`.startsWith("enrolment/");
  if (token !== null && again) Object.assign(earlier, { state: "waiting", token, code: null });
  return [earlier, outcome(earlier)];
}

const outcome = ({ name, state, round = null, report = null, code = null, opens = null }) =>
  ({ campaign: name, state, round, epsilon: "0", report, code, used: false, ignored: [], opens });

const sentenceOf = (attempt) => Promise.resolve().then(attempt).then(() => null, (reason) => reason.message);
