/**
 * The device: reads a campaign, refuses what exceeds its owner's caps, answers once, and sends until it arrives.
 *
 * The guarantee rests on the order of steps. Documents are read and checked. Then, alone with its storage, the device
 * decides by the calendar, by coins and by the ledger, and before it looks at the record, whether anything is drawn; it
 * draws, debits the ledger and stores the report in one write. Only then is it sent.
 */
import { canonical, daysBetween, hex, periodOf, unhex, utf8 } from "./canonical.js";
import { pad, reportBytes } from "./codecs.js";
import { Coins } from "./coins.js";
import { demand } from "./errors.js";
import { text } from "./exact.js";
import { explained } from "./explain.js";
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

  constructor({ collector = "", storage, mechanisms, caps = {}, transport, coins, now, patience, sleep, ignoreSignals }) {
    this.storage = storage;
    this.mechanisms = mechanisms;
    this.transport = transport ?? new HttpTransport(collector);
    this.prefix = collector && `${collector.replace(/\/+$/, "")}/`; // of every series, so that no two collectors see one id
    this.coins = coins ?? new Coins();
    this.now = now ?? (() => new Date());
    this.patience = { ...PATIENCE, ...patience };
    this.sleep = sleep ?? ((seconds) => new Promise((done) => setTimeout(done, 1000 * seconds)));
    this.ignoreSignals = ignoreSignals;
    this.#caps = caps;
  }

  // -- what the owner sees and decides --------------------------------------------------------------------------

  /** What a campaign asks now, at what price, and why it would be refused; changes nothing of the ledger. */
  async explain(name) {
    const [notice, durable] = [await this.#read(name), await this.storage.durable()];
    return this.#books(async (state) => {
      const { campaign, round } = notice;
      const { state: consent = null } = state.consents[campaign.series] ?? {};
      const agreed = consent === "given" && !(await sentenceOf(() => refuseChanged(state, campaign)));
      const asks = round && !found(state, notice);
      const trial = structuredClone(state); // what an answer would do, as if it were agreed to
      agree(trial, campaign);
      const refusal = await sentenceOf(() => this.#refuseSignal() ?? (asks && this.#answer(trial, notice, {}, "", durable, true)));
      const remarks = [
        !durable && "This browser may forget what was spent: each clearing of its data can cost one more epsilon a round.",
        state.latest > this.#today() && `The clock was once at ${state.latest}: until then no period of a cap ends.`,
      ].filter(Boolean);
      const spent = lines(state, campaign, this.#day(state));
      const told = { name, hash: campaign.hash, consent, agreed, durable, remarks, refusal, spent, notice };
      return { ...told, text: explained(told), epsilon: round && text(round.cost) };
    });
  }

  /** Agree to a campaign: to what was shown, or else to what its collector serves now. */
  async consent(name, shown) {
    this.#refuseSignal();
    const { campaign } = await this.#shown(name, shown);
    await this.#books((state) => agree(state, campaign));
  }

  /** Withdraw consent: unsent reports are deleted, and what has begun counts as answered; the ledger stays. */
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

  /** What a report would see of a record, what it would not, and one possible report; nothing is spent or sent. */
  async preview(name, record) {
    const notice = await this.#read(name);
    demand(notice.round, "round/closed");
    const [seen, id] = [look(notice, record), this.coins.bytes(16)];
    return { ...seen, report: { id: hex(id), payload: drawn(notice.round, seen.pairs, id, this.coins) } };
  }

  /** Everything that was paid for, or repeated for free, oldest first, with what was sent and what became of it. */
  ledger() {
    return this.#books(({ entries }) => entries.map(({ token, ...one }) => one));
  }

  /** Ledger, caps and consents; no secrets and no tokens. */
  async export() {
    const entries = await this.ledger();
    return this.#books(({ secret, ...state }) => ({ ...state, entries }));
  }

  /** Change some caps for good; looser ones than before only with `loosen`. */
  async limit(changes, loosen = false) {
    await this.#books((state) => (state.caps = changedCaps(state.caps, changes, loosen)));
  }

  /** Take the clock's day for right, however far it is ahead of the latest day seen. */
  async trustClock() {
    await this.#books((state) => (state.latest = this.#day(state)));
  }

  // -- reporting ------------------------------------------------------------------------------------------------

  /** Answer the open round of a campaign, at most once; what cannot be sent now waits for `flush`. */
  async report(name, record, { token = null, shown } = {}) {
    this.#refuseSignal();
    await this.#books((state) => need(state, this.prefix + name));
    demand(token === null || /^[\x21-\x7e]{1,1000}$/.test(token), "enrolment/token");
    const notice = await this.#shown(name, shown);
    const [since, durable] = [Date.now(), await this.storage.durable()];
    if (!notice.round) {
      const later = notice.campaign.document.rounds.map((window) => window.opens).filter((day) => day > this.#today());
      const between = ["open", "draft"].includes(notice.state);
      return outcome(between ? { name, state: "between", opens: later.sort()[0] } : { name, state: "closed" });
    }
    const [parcel, told] = await this.#books((state) => this.#answer(state, notice, record, token, durable));
    if (parcel?.state !== "waiting") return told;
    const { pace } = this.patience;
    if (told.used && pace) await this.sleep(pace - (((Date.now() - since) / 1000) % pace));
    return this.#send(parcel, told);
  }

  /** Try again to send what waits; if the collector cannot be reached, those after it wait too. */
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

  /** Three things decide, in this order: calendar and terms, then the ledger, and only then the record; `dry` draws nothing. */
  async #answer(state, notice, record, token, durable, dry = false) {
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
    this.#refuseUntimely(state, notice, durable);
    const day = (state.latest = this.#day(state));
    const notAsked = [null, outcome({ name, state: "not-asked", round: round.number })];
    if (document.one_in && !dry && !this.#turn(state, campaign)) return notAsked;
    const period = periodOf(document, day);
    const parts = period ? ["period", series, terms, period.first] : round.seats ? ["seat", series, hash] : ["round", series, round.hash];
    const id = await derivedId(state.secret, ...parts);
    if (round.seats && !dry && !round.seats(id)) return notAsked;
    const standing = period && state.entries.find((one) => one.series === series && one.terms === terms && one.first === period.first);
    if (!standing) this.#pay(state, notice);
    const { pairs, ignored } = standing ? { ignored: [] } : look(notice, record);
    const { payload } = standing ?? { payload: dry ? "" : drawn(round, pairs, id, this.coins) };
    const { name: mechanism, fingerprint } = round.mechanism;
    const asked = { name, series, campaign: hash, schema: campaign.schema.hash, terms, round: round.number, document: round.hash };
    const paid = { day, mechanism, fingerprint: hex(fingerprint), epsilon: standing ? "0" : text(round.cost), free: Boolean(standing) };
    const sent = { report: hex(id), payload, first: period?.first ?? null, token, state: "waiting", code: null, attempts: 0 };
    const entry = { ...asked, ...paid, ...sent, whole: campaign.several ? document.protocol.epsilon : null, until: campaign.until };
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

  // -- what refuses ---------------------------------------------------------------------------------------------

  /** Refuse a round outside its dates, which the owner was shown. */
  #refuseClosed({ campaign, round }) {
    const { closes = campaign.until } = campaign.document.rounds[round.number - 1] ?? {};
    const today = this.#today();
    demand(today >= openedOn(campaign, round) && today <= (closes ?? today), "round/closed");
  }

  /** Refuse where storage or clock are not trusted, and what counts as answered since consent was withdrawn. */
  #refuseUntimely(state, { campaign, round }, durable) {
    const { series, document, hash } = campaign;
    demand(durable || document.browser, "storage/fleeting", "This campaign is not for browsers that may forget what was spent.");
    demand(daysBetween(state.latest, this.#today()) <= MOST_JUMP, "device/clock", "The clock is far ahead: set it, or say that it is right.");
    const { day, campaign: known } = state.consents[series]?.paused ?? {};
    const [period, opened] = [periodOf(document, this.#day(state)), openedOn(campaign, round)];
    const begun = (opened ? opened <= day : known === hash) || period?.first <= day;
    demand(!begun, "report/withdrawn", `Consent was withdrawn on ${day}: what had begun by then is not answered.`);
  }

  /** Refuse a draw that does not fit the caps; the first draw of a campaign must fit with all that may follow. */
  #pay(state, { campaign, round }) {
    const own = ofCampaign(state, campaign);
    const first = campaign.several && !state.entries.some((one) => one.series === campaign.series && one.campaign === campaign.hash);
    refuseBeyond(round.cost, [own]);
    refuseBeyond(first ? campaign.epsilon : round.cost, lines(state, campaign, this.#day(state)));
  }

  /** Which campaigns of a series a device answers: by one coin for the series, and by counting. */
  #turn(state, { series, terms, hash, document: { one_in: oneIn } }) {
    const turn = (state.turns[`${series} ${terms}`] ??= { place: this.coins.below(oneIn), met: -1 });
    if (turn.campaign !== hash) Object.assign(turn, { met: turn.met + 1, campaign: hash });
    return turn.met % oneIn === turn.place;
  }

  // -- storage, clock and signals -------------------------------------------------------------------------------

  /** Run a step alone with the books, and keep what it changed; a step that fails changes nothing. */
  #books(step) {
    return this.storage.alone(async () => {
      const kept = await this.storage.read();
      demand(kept !== null || this.#secret === null, "storage/vanished");
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

  /** The latest day ever seen, so that setting the clock back gives no budget back. */
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
    return shown?.notice ?? this.#read(name);
  }

  async #read(name) {
    demand(NAME.test(name), "campaign/name");
    const get = async (path) => {
      const answer = await this.transport.request("GET", path, undefined, { Accept: "application/json" });
      demand(answer.status === 200, problemCode(answer) ?? "transport/status", `The collector answered ${answer.status}.`);
      return answer.body;
    };
    const notice = await readNotice(await get(`/v1/campaigns/${name}`), name, this.mechanisms, (wanted) => get(`/v1/dictionaries/${wanted}`));
    notice.campaign.series = this.prefix + name;
    return notice;
  }
}

/** The pairs of a record that count, and what does not. */
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

/** The id of what the parts name, under a device's secret: sixteen bytes of HMAC-SHA-256. */
export async function derivedId(secret, ...parts) {
  const key = await crypto.subtle.importKey("raw", unhex(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, utf8(canonical(parts)))).subarray(0, 16);
}

/** Books that this version can read. */
function opened(kept) {
  const state = /^\{"keyveil":1,.*\}$/s.test(kept) && JSON.parse(kept);
  demand(state, "device/file");
  return state;
}

/** Store a consent, or the latest campaign that it covers. */
function agree({ consents }, { series, terms, hash, starts, ends }) {
  consents[series] = { ...consents[series], state: "given", terms, campaign: hash, starts, ends };
}

/** Refuse what the owner has not agreed to, or no longer agrees to; the name is that of a series. */
function need(state, name) {
  const { state: consent } = state.consents[name] ?? {};
  demand(consent !== "withdrawn", "consent/withdrawn", "Consent was withdrawn; it can be given again.");
  demand(consent, "consent/needed", "Nobody has agreed to this campaign yet: explain it, then consent.");
}

/** Refuse a campaign that is neither the one agreed to nor a later one of its series with the same terms. */
function refuseChanged(state, { series, hash, terms, starts, document: { every_days: days = 1 } }) {
  const { campaign = hash, ...known } = state.consents[series] ?? {};
  const goesOn = known.terms === terms && known.ends && starts > known.ends && daysBetween(known.starts, starts) >= days;
  demand(campaign === hash || goesOn, "campaign/changed", "This is not what was agreed to: show it and consent again.");
}

/** Refuse a round that was changed, or that comes after a later one; remember it otherwise. */
function refuseOutOfOrder(state, { campaign: { series, hash }, round }) {
  const seen = (state.met[`${series} ${hash}`] ??= {});
  demand((seen[round.number] ??= round.hash) === round.hash, "round/changed");
  demand(Math.max(...Object.keys(seen)) === round.number, "round/order");
}

const found = ({ entries }, { campaign: { series, hash }, round: { number } }) =>
  entries.find((one) => one.series === series && one.campaign === hash && one.round === number);

/** The first day on which a round could have been open, or "" if none is named; rounds open in their order. */
const openedOn = ({ document }, { number }) =>
  document.rounds.slice(0, number).map((window) => window.opens ?? "").sort().at(-1);

/** The report that was made before; with a new token if it waits, or was refused because of its token. */
function renewed(earlier, token) {
  demand(earlier.state !== "withdrawn", "report/withdrawn");
  const again = earlier.state === "waiting" || `${earlier.code}`.startsWith("enrolment/");
  if (token !== null && again) Object.assign(earlier, { state: "waiting", token, code: null });
  return [earlier, outcome(earlier)];
}

/** What became of a call; an earlier report costs nothing again. */
const outcome = ({ name, state, round = null, report = null, code = null, opens = null }) =>
  ({ campaign: name, state, round, epsilon: "0", report, code, used: false, ignored: [], opens });

/** What an attempt is refused with, or nothing. */
async function sentenceOf(attempt) {
  try {
    await attempt();
    return null;
  } catch (reason) {
    return reason.message;
  }
}
