/**
 * The device: reads a campaign, refuses what exceeds its owner's caps, answers once, and sends until it arrives.
 *
 * The guarantee rests on the order of steps. Documents are read and checked. Then, alone with its storage, the device
 * decides by the calendar, by coins and by the ledger, and before it looks at the record, whether anything is drawn; it
 * draws, debits the ledger and stores the report in one write. Only then is it sent.
 */
import { canonical, hex, unhex, utf8 } from "./canonical.js";
import { pad, reportBytes } from "./codecs.js";
import { Coins } from "./coins.js";
import { daysBetween, periodOf } from "./days.js";
import { demand, refuse } from "./errors.js";
import { subtract, text } from "./exact.js";
import { explained } from "./explain.js";
import { CAPS, changedCaps, lines, refuseBeyond, reserved, spentOn } from "./ledger.js";
import { NAME, readNotice } from "./notice.js";
import { HttpTransport, problemCode } from "./transport.js";
import { deliver, PASSING, PATIENCE } from "./upload.js";

const MOST_JUMP = 400; // days that a clock may be ahead of the latest day seen
const EMPTY = { entries: [], parcels: [], standing: [], pauses: [], reservations: [], consents: {}, met: {}, turns: {} };

export class Device {
  #caps;
  #secret = null; // of the books that this device works with

  constructor({ collector, storage, mechanisms, caps = {}, transport, coins, now, patience, sleep, ignoreSignals = false }) {
    this.storage = storage;
    this.mechanisms = mechanisms;
    this.transport = transport ?? new HttpTransport(collector ?? "");
    this.prefix = collector ? `${collector.replace(/\/+$/, "")}/` : ""; // of series: no two collectors see one id
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
      const day = this.#day(state);
      const consent = state.consents[campaign.series]?.state ?? null;
      const agreed = consent === "given" && !(await sentenceOf(() => this.#hold(structuredClone(state), notice)));
      const refusal = await sentenceOf(() => this.#refuseDraw(state, notice, durable));
      const spent = lines(state, campaign, day);
      const remarks = [
        ...(durable ? [] : ["This browser may forget what was spent: each clearing of its data can cost one more epsilon a round."]),
        ...(this.#signal() ? ["This browser asks not to be tracked, so nothing is answered."] : []),
        ...(state.latest > this.#today() ? [`The clock was once at ${state.latest}: until then no period of a cap ends.`] : []),
      ];
      const told = { name, hash: campaign.hash, consent, agreed, durable, remarks, refusal, spent, notice };
      return { ...told, ...explained(told), epsilon: round && text(round.cost) };
    });
  }

  /** Agree to a campaign: to what was shown, or else to what its collector serves now. */
  async consent(name, shown) {
    this.#refuseSignal();
    const { campaign } = await this.#shown(name, shown);
    await this.#books((state) => {
      state.consents[campaign.series] = given(campaign);
    });
  }

  /** Withdraw consent: unsent reports are deleted, and what has begun counts as answered; the ledger stays. */
  withdraw(name) {
    return this.#books((state) => {
      const series = this.prefix + name;
      const { campaign = null } = state.consents[series] ?? {};
      for (const list of ["pauses", "standing", "reservations"]) state[list] = state[list].filter((one) => one.series !== series);
      state.pauses.push({ series, day: this.#day(state), campaign });
      state.consents[series] = { ...state.consents[series], state: "withdrawn" };
      const unsent = state.parcels.filter((one) => one.series === series && one.state === "waiting");
      for (const one of unsent) Object.assign(one, { state: "withdrawn", payload: null, token: null });
      return unsent.length;
    });
  }

  /** What a report would see of a record, what it would not, and one possible report; nothing is spent or sent. */
  async preview(name, record) {
    const notice = await this.#read(name);
    demand(notice.round, "round/closed", `${name} asks nothing at the moment that a record could be held against.`);
    const [seen, id] = [look(notice, record), this.coins.bytes(16)];
    return { ...seen, report: { id: hex(id), payload: drawn(notice.round, seen.pairs, id, this.coins) } };
  }

  /** Everything that was paid for, or repeated for free, oldest first. */
  ledger() {
    return this.#books((state) => state.entries);
  }

  /** Ledger, caps, consents and what was sent; no secrets and no tokens. */
  export() {
    return this.#books(({ secret, parcels, ...state }) => ({ ...state, parcels: parcels.map(({ token, ...one }) => one) }));
  }

  /** Change some caps for good; looser ones than before only with `loosen`. */
  limit(changes, loosen = false) {
    return this.#books((state) => {
      state.caps = changedCaps(state.caps, changes, loosen);
    });
  }

  /** Take the clock's day for right, however far it is ahead of the latest day seen. */
  trustClock() {
    return this.#books((state) => {
      state.latest = this.#day(state);
    });
  }

  // -- reporting ------------------------------------------------------------------------------------------------

  /** Answer the open round of a campaign, at most once; what cannot be sent now waits for `flush`. */
  async report(name, record, { token = null, shown } = {}) {
    this.#refuseSignal();
    await this.#books((state) => refuseUnagreed(state, this.prefix + name));
    demand(token === null || /^[\x21-\x7e]{1,1000}$/.test(token), "enrolment/token", "A token is a short line of printable characters.");
    const notice = await this.#shown(name, shown);
    const since = Date.now();
    if (!notice.round) return this.#silent(notice);
    const durable = await this.storage.durable();
    const [parcel, told] = await this.#books((state) => this.#answer(state, notice, record, token, durable));
    if (parcel?.state !== "waiting") return told;
    const { pace } = this.patience;
    if (told.used && pace) await this.sleep(pace - (((Date.now() - since) / 1000) % pace));
    return this.#send(parcel, told);
  }

  /** Try again to send what waits; if the collector cannot be reached, those after it wait too. */
  async flush() {
    const mine = (one) => one.state === "waiting" && one.series === this.prefix + one.name;
    const told = [];
    for (const parcel of await this.#books((state) => state.parcels.filter(mine))) {
      told.push(await this.#send(parcel, outcome(parcel)));
      if (told.at(-1).state === "waiting" && !PASSING.includes(told.at(-1).code)) break;
    }
    return told;
  }

  #silent({ campaign: { name, document }, state }) {
    if (!["open", "draft"].includes(state)) return outcome({ name, state: "closed" });
    const later = document.rounds.map((window) => window.opens).filter((day) => day > this.#today());
    return outcome({ name, state: "between", opens: later.sort()[0] ?? null });
  }

  /** Three things decide, in this order: calendar and terms, then the ledger, and only then the record. */
  async #answer(state, notice, record, token, durable) {
    const { campaign, round } = notice;
    const { name, series, terms, document } = campaign;
    refuseUnagreed(state, series);
    this.#hold(state, notice);
    const earlier = found(state, notice);
    if (earlier) return renewed(earlier, token);
    demand(document.enrolment === "none" || token !== null, "enrolment/needed", `${name} takes reports of enrolled devices only.`);
    this.#refuseUntimely(state, notice, durable);
    const day = (state.latest = this.#day(state));
    const notAsked = [null, outcome({ name, state: "not-asked", round: round.number })];
    if (document.one_in && !this.#turn(state, campaign)) return notAsked;
    const period = periodOf(document, day);
    const named = period ? ["period", series, terms, period.first] : round.seats ? ["seat", series, campaign.hash] : ["round", series, round.hash];
    const id = await derivedId(state.secret, ...named);
    if (round.seats && !round.seats(id)) return notAsked;
    let standing = stands(state, campaign, period);
    const used = !standing;
    let ignored = [];
    if (used) {
      this.#pay(state, notice);
      const seen = look(notice, record);
      ignored = seen.ignored;
      standing = { series, terms, ...period, report: hex(id), payload: drawn(round, seen.pairs, id, this.coins) };
      if (period) state.standing = [...state.standing.filter((one) => one.series !== series || one.last >= day), standing];
    }
    const { report, payload } = standing;
    const epsilon = used ? text(round.cost) : "0";
    const about = { series, campaign: campaign.hash, round: round.number, report };
    const { name: mechanism, fingerprint } = round.mechanism;
    state.entries.push({ day, schema: campaign.schema.hash, mechanism, fingerprint: hex(fingerprint), ...about, epsilon, free: !used });
    const parcel = { name, ...about, document: round.hash, payload, token, state: "waiting", code: null, attempts: 0 };
    state.parcels.push(parcel);
    return [parcel, outcome({ ...parcel, epsilon, used, ignored })];
  }

  async #send(parcel, told) {
    const { state, code, attempts } = await deliver(parcel, this);
    await this.#books((books) => {
      const kept = books.parcels.find((one) => one.report === parcel.report && one.document === parcel.document && one.state === "waiting");
      if (kept) Object.assign(kept, { state, code, attempts: kept.attempts + attempts, token: state === "waiting" ? kept.token : null });
    });
    return { ...told, state, code };
  }

  // -- what refuses ---------------------------------------------------------------------------------------------

  /** Refuse a campaign or round that departs from the consent, from its dates, or from what was served before. */
  #hold(state, { campaign, round }) {
    const { name, series, hash, terms, starts, document } = campaign;
    const known = state.consents[series] ?? {};
    if (known.campaign && known.campaign !== hash) {
      const changed = (fits, sentence) => demand(fits, "campaign/changed", `${name} ${sentence}: show it and consent again.`);
      changed(known.terms === terms, "now asks something else than was agreed to");
      changed(known.ends && starts > known.ends, "was changed, and is no later campaign of its series");
      changed(daysBetween(known.starts, starts) >= (document.every_days ?? 1), "returns sooner than it may");
    }
    state.consents[series] = given(campaign);
    state.reservations = state.reservations.filter((one) => one.series !== series || one.campaign === hash);
    if (!round) return;
    this.#refuseClosed(campaign, round);
    const seen = (state.met[`${series} ${hash}`] ??= {});
    demand((seen[round.number] ??= round.hash) === round.hash, "round/changed", "This round is not the one that was served before.");
    demand(Math.max(...Object.keys(seen)) === round.number, "round/order", "A later round was served before this one.");
  }

  /** Refuse a round outside its dates, which the owner was shown. */
  #refuseClosed(campaign, round) {
    const [today, { closes = campaign.until }] = [this.#today(), campaign.document.rounds[round.number - 1] ?? {}];
    const open = today >= (openedOn(campaign, round) ?? today) && today <= (closes ?? today);
    demand(open, "round/closed", `Round ${round.number} of ${campaign.name} is not open today.`);
  }

  /** Refuse where storage or clock are not trusted, and what counts as answered since consent was withdrawn. */
  #refuseUntimely(state, { campaign, round }, durable) {
    const { name, series, document, hash } = campaign;
    demand(durable || document.browser, "storage/fleeting", `${name} is not for browsers that may forget what was spent.`);
    const today = this.#today();
    demand(daysBetween(state.latest, today) <= MOST_JUMP, "device/clock", `The clock says ${today}: set it, or say that it is right.`);
    const [period, opened] = [periodOf(document, this.#day(state)), openedOn(campaign, round)];
    for (const { day, campaign: known } of state.pauses.filter((one) => one.series === series)) {
      const begun = (opened ? opened <= day : known === hash) || period?.first <= day;
      demand(!begun, "report/withdrawn", `Consent to ${name} was withdrawn on ${day}: what had begun by then is not answered.`);
    }
  }

  /** Refuse what no new report would be drawn for, whatever the record. */
  #refuseDraw(state, notice, durable) {
    const { campaign, round } = notice;
    if (!round || found(state, notice)) return;
    this.#refuseSignal();
    this.#refuseClosed(campaign, round);
    this.#refuseUntimely(state, notice, durable);
    if (!stands(state, campaign, periodOf(campaign.document, this.#day(state)))) this.#pay(structuredClone(state), notice);
  }

  /** Refuse a draw that does not fit the caps; the first draw of a campaign must fit with all that may follow. */
  #pay(state, { campaign, round }) {
    const { series, hash, schema, epsilon, several, until } = campaign;
    const [day, spent] = [this.#day(state), spentOn(state, series, hash)];
    const begun = reserved(state, day).some((one) => one.series === series && one.campaign === hash);
    refuseBeyond(round.cost, [{ what: "for this campaign", limit: text(epsilon), spent }]);
    refuseBeyond(several && !begun ? subtract(epsilon, spent) : round.cost, lines(state, campaign, day));
    if (several && !begun) state.reservations.push({ series, campaign: hash, schema: schema.hash, epsilon: text(epsilon), until });
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
      const mine = (holds) => demand(holds, "storage/vanished", "The books of this device are gone or were replaced: it answers nothing more.");
      mine(kept !== null || this.#secret === null);
      const state = kept === null ? this.#fresh() : opened(kept);
      mine(this.#secret === null || this.#secret === state.secret);
      if (this.#secret === null) state.caps = changedCaps(state.caps, this.#caps, kept === null);
      const result = await step(state);
      const now = JSON.stringify(state);
      if (now !== kept) {
        await this.storage.write(now);
        demand((await this.storage.read()) === now, "storage/refused", "What was written here cannot be read back, so nothing is answered.");
      }
      this.#secret = state.secret;
      return result;
    });
  }

  #fresh() {
    const [secret, day] = [hex(this.coins.bytes(32)), this.#today()];
    return { keyveil: 1, secret, since: day, latest: day, caps: CAPS, ...EMPTY };
  }

  #today() {
    return this.now().toISOString().slice(0, 10);
  }

  /** The latest day ever seen, so that setting the clock back gives no budget back. */
  #day(state) {
    return [this.#today(), state.latest].sort()[1];
  }

  #signal() {
    const { globalPrivacyControl, doNotTrack } = globalThis.navigator ?? {};
    return !this.ignoreSignals && (globalPrivacyControl === true || doNotTrack === "1");
  }

  #refuseSignal() {
    demand(!this.#signal(), "consent/signal", "This browser asks not to be tracked (Global Privacy Control or Do Not Track).");
  }

  async #shown(name, shown) {
    demand(!shown || shown.name === name, "consent/other", `What was shown is not ${name}.`);
    return shown?.notice ?? this.#read(name);
  }

  async #read(name) {
    demand(NAME.test(name), "campaign/name", "A campaign's name looks like snack-survey.");
    const get = async (path) => {
      const answer = await this.transport.request("GET", path, undefined, { Accept: "application/json" });
      if (answer.status !== 200) refuse(problemCode(answer) ?? "transport/status", `The collector answered ${answer.status}.`);
      return answer.body;
    };
    const body = await get(`/v1/campaigns/${name}`);
    const notice = await readNotice(body, name, this.mechanisms, (wanted) => get(`/v1/dictionaries/${wanted}`));
    notice.campaign.series = this.prefix + name;
    return notice;
  }
}

/** The pairs of a record that count, and what does not. */
function look({ campaign: { schema }, round: { mechanism } }, record) {
  const { pairs, ignored } = schema.look(record);
  if (pairs.length > mechanism.cap)
    ignored.push({ why: "surplus", key: "", sentence: `Of ${pairs.length} pairs only ${mechanism.cap} count, chosen at random.` });
  return { pairs, ignored };
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
  try {
    const state = JSON.parse(kept);
    if (state.keyveil === 1) return state;
  } catch {
    // what follows says it
  }
  return refuse("device/file", "What is stored here are not the books of such a device.");
}

const given = ({ terms, hash, starts, ends }) => ({ state: "given", terms, campaign: hash, starts, ends });

function refuseUnagreed(state, series) {
  const { state: consent } = state.consents[series] ?? {};
  demand(consent !== "withdrawn", "consent/withdrawn", "Consent was withdrawn; it can be given again.");
  demand(consent, "consent/needed", "Nobody has agreed to this campaign yet: explain it, then consent.");
}

const found = (state, { campaign: { series, hash }, round }) =>
  state.parcels.find((one) => one.series === series && one.campaign === hash && one.round === round.number);

const stands = (state, { series, terms }, period) =>
  period && state.standing.find((one) => one.series === series && one.terms === terms && one.first === period.first);

/** The first day on which a round could have been open, if one is named; rounds open in their order. */
const openedOn = ({ document }, round) =>
  document.rounds.slice(0, round.number).map((window) => window.opens).filter(Boolean).sort().at(-1);

/** The report that was made before; with a new token if it waits, or was refused because of its token. */
function renewed(earlier, token) {
  demand(earlier.state !== "withdrawn", "report/withdrawn", "The report of this round was withdrawn for good.");
  const lacks = earlier.state === "refused" && earlier.code.startsWith("enrolment/");
  if (token !== null && (lacks || earlier.state === "waiting")) Object.assign(earlier, { state: "waiting", token, code: null });
  return [earlier, outcome(earlier)];
}

const outcome = ({ name, state, round = null, epsilon = "0", report = null, code = null, used = false, ignored = [], opens = null }) => ({ campaign: name, state, round, epsilon, report, code, used, ignored, opens });

/** What an attempt is refused with, or nothing. */
async function sentenceOf(attempt) {
  try {
    await attempt();
    return null;
  } catch (reason) {
    return reason.message;
  }
}
