/**
 * The device: reads a campaign, refuses what exceeds its owner's caps, answers once, and sends until it arrives.
 *
 * The guarantee rests on the order of steps. Documents are read and checked. Then, alone with its storage, the device
 * decides by the calendar, by coins and by the ledger, and before it looks at the record, whether anything is drawn; it
 * draws, debits the ledger and stores the report in one write. Only then is it sent.
 */
import { hex, unhex } from "./canonical.js";
import { pad, reportBytes } from "./codecs.js";
import { Coins } from "./coins.js";
import { refuse } from "./errors.js";
import { subtract, text } from "./exact.js";
import { CAPS, changedCaps, lines, refuseBeyond, reserved, shown, spentOn } from "./ledger.js";
import { daysBetween, derivedId, periodOf, readNotice } from "./notice.js";
import { HttpTransport, problemCode } from "./transport.js";
import { deliver, PASSING, PATIENCE } from "./upload.js";
import { holds, partingWord } from "./words.js";

const MOST_JUMP = 400; // days that a clock may be ahead of the latest day seen
const EVERYONE = "0,1";

/** @typedef {{campaign: string, state: string, round: number | null, epsilon: string, report: string | null, code: string | null, used: boolean, ignored: import("./schema.js").Ignored[]}} Outcome */

export class Device {
  /**
   * @param {object} given
   * @param {string} [given.collector] address of the collector
   * @param {import("./storage.js").Storage} given.storage
   * @param {Record<string, Function>} given.mechanisms the programs that this device answers with
   * @param {Record<string, any>} [given.caps] some of the caps; kept with the books
   * @param {{request: Function}} [given.transport]
   * @param {Coins} [given.coins]
   * @param {() => Date} [given.now]
   * @param {Partial<typeof PATIENCE>} [given.patience]
   * @param {(seconds: number) => Promise<void>} [given.sleep]
   * @param {boolean} [given.ignoreSignals] answer although Global Privacy Control or Do Not Track is set
   */
  constructor({ collector, storage, mechanisms, caps, transport, coins, now, patience, sleep, ignoreSignals = false }) {
    this.storage = storage;
    this.mechanisms = mechanisms;
    this.transport = transport ?? new HttpTransport(collector ?? "");
    this.coins = coins ?? new Coins();
    this.now = now ?? (() => new Date());
    this.patience = { ...PATIENCE, ...patience };
    this.sleep = sleep ?? ((seconds) => new Promise((done) => setTimeout(done, 1000 * seconds)));
    this.ignoreSignals = ignoreSignals;
    this._caps = caps ?? {};
    /** @type {string | null} */ this._secret = null;
  }

  // -- what the owner sees and decides --------------------------------------------------------------------------

  /** What a campaign asks now, at what price, and why it would be refused; changes nothing of the ledger. */
  async explain(name) {
    const notice = await this._read(name);
    const durable = await this.storage.durable();
    return this._transaction(async (state) => {
      const { campaign, round } = notice;
      const held = lines(state, campaign.schema.hash, this._day(state));
      const remarks = durable ? [] : ["This browser may forget what was spent: each clearing of its data can cost one more epsilon a round."];
      if (this._signal()) remarks.push("This browser asks not to be tracked, so nothing is answered.");
      const refusal = await this._refusal(() => this._mayDraw(state, notice, durable));
      const consent = state.consents[name]?.state ?? null;
      const agreed = consent === "given" && (await this._refusal(() => this._check(state, name, campaign))) === null;
      const { purpose, contact, retention_days, min_reports, protocol, enrolment } = campaign.document;
      const price = round ? `round ${round.number} costs epsilon ${shown(round.cost)}, computed here from ${round.mechanism.name}` : "nothing is asked at the moment";
      const text = [
        `${name} (${campaign.hash.slice(0, 8)}…)`,
        `Why: ${purpose}`,
        `What: which of ${campaign.schema.d} keys you have (${campaign.schema.names.slice(0, 20).join(", ")}${campaign.schema.d > 20 ? ", …" : ""}), and their values`,
        `Until: ${campaign.until ?? "no last day is named"}`,
        `Privacy: epsilon ${protocol.epsilon} for the whole campaign (${protocol.name})`,
        `Now: ${price}`,
        `Kept: single reports for at most ${retention_days} days; nothing is shown before ${min_reports} people have reported`,
        `Enrolment: ${enrolment}. Contact: ${contact || "none is named"}`,
        ...held.map((line) => `Spent ${line.what}: ${shown(line.spent)} of ${line.limit}`),
        ...remarks.map((remark) => `Note: ${remark}`),
        ...(refusal ? [`Verdict: ${refusal}`] : []),
      ].join("\n");
      const epsilon = round ? shown(round.cost) : null;
      return { name, text, epsilon, hash: campaign.hash, consent, agreed, durable, remarks, refusal, notice };
    });
  }

  /** Agree to a campaign: to what was shown, or else to what its collector serves now. */
  async consent(name, shown = undefined) {
    this._refuseSignal();
    if (shown && shown.name !== name) refuse("consent/other", `What was shown is ${shown.name}, not ${name}.`);
    const { campaign } = shown?.notice ?? (await this._read(name));
    await this._transaction(async (state) => {
      state.consents[name] = given(campaign);
    });
  }

  /** Withdraw consent: unsent reports are deleted, and what has begun counts as answered; the ledger stays. */
  async withdraw(name) {
    return this._transaction(async (state) => {
      const day = this._day(state);
      state.pauses = state.pauses.filter((one) => one.series !== name);
      state.pauses.push({ series: name, day, campaign: state.consents[name]?.campaign ?? null });
      state.consents[name] = { ...state.consents[name], state: "withdrawn" };
      state.standing = state.standing.filter((one) => one.series !== name);
      state.reservations = state.reservations.filter((one) => one.series !== name);
      const unsent = state.parcels.filter((one) => one.name === name && one.state === "waiting");
      for (const one of unsent) Object.assign(one, { state: "withdrawn", payload: null, token: null });
      return unsent.length;
    });
  }

  /** What a report would see of a record, what it would not, and one possible report; nothing is spent or sent. */
  async preview(name, record) {
    const { round } = await this._read(name);
    if (!round) return refuse("round/closed", `${name} asks nothing at the moment that a record could be held against.`);
    const { pairs, ignored } = this._look(round, record);
    const id = this.coins.bytes(16);
    return { pairs, ignored, report: { id: hex(id), payload: hex(drawn(round, pairs, id, this.coins)) } };
  }

  /** Everything that was paid for, or repeated for free, oldest first. */
  async ledger() {
    return this._transaction(async (state) => state.entries);
  }

  /** Ledger, caps, consents and what was sent; no secrets and no tokens. */
  async export() {
    return this._transaction(async ({ secret, parcels, ...state }) => ({ ...state, parcels: parcels.map(({ token, ...one }) => one) }));
  }

  /** Change some caps for good; looser ones than before only with `loosen`. */
  async limit(changes, loosen = false) {
    await this._transaction(async (state) => {
      state.caps = changedCaps(state.caps, changes, loosen);
    });
  }

  /** Take the clock's day for right, however far it is ahead of the latest day seen. */
  async trustClock() {
    await this._transaction(async (state) => {
      state.latest = this._day(state);
    });
  }

  // -- reporting ------------------------------------------------------------------------------------------------

  /** Answer the open round of a campaign, at most once; what cannot be sent now waits for `flush`. @returns {Promise<Outcome>} */
  async report(name, record, { token = null, shown: seen = undefined } = {}) {
    this._refuseSignal();
    await this._transaction(async (state) => need(state, name));
    if (token !== null && !/^[\x21-\x7e]{1,1000}$/.test(token)) refuse("enrolment/token", "An enrolment token is a short line of printable characters.");
    const notice = seen?.notice ?? (await this._read(name));
    const since = Date.now();
    if (!notice.round) return outcome(name, { state: ["open", "draft"].includes(notice.state) ? "between" : "closed" });
    const durable = await this.storage.durable();
    const [parcel, told] = await this._transaction((state) => this._answer(state, notice, record, token, durable));
    if (!parcel || parcel.state !== "waiting") return told;
    const { pace } = this.patience;
    if (told.used && pace > 0) await this.sleep(pace - (((Date.now() - since) / 1000) % pace));
    return this._send(parcel, told);
  }

  /** Try again to send what waits; if the collector cannot be reached, those after it wait too. @returns {Promise<Outcome[]>} */
  async flush() {
    const waiting = await this._transaction(async (state) => state.parcels.filter((one) => one.state === "waiting"));
    const told = [];
    for (const parcel of waiting) {
      const one = await this._send(parcel, outcome(parcel.name, parcel));
      told.push(one);
      if (one.state === "waiting" && !PASSING.includes(one.code ?? "")) break;
    }
    return told;
  }

  /** Three things decide, in this order: calendar and terms, then the ledger, and only then the record. */
  async _answer(state, notice, record, token, durable) {
    const { campaign, round } = notice;
    const { name, terms, document } = campaign;
    need(state, name);
    this._check(state, name, campaign);
    state.consents[name] = given(campaign);
    this._refuseClosed(notice);
    this._follow(state, notice);
    state.reservations = state.reservations.filter((one) => one.series !== name || one.campaign === campaign.hash);
    const earlier = found(state, notice);
    if (earlier) return renewed(earlier, token);
    if (document.enrolment === "token" && token === null) refuse("enrolment/needed", `${name} takes reports of enrolled devices only.`);
    const day = this._day(state);
    this._mayAnswer(state, notice, durable);
    state.latest = day;
    const notAsked = [null, outcome(name, { state: "not-asked", round: round.number })];
    if (document.one_in && !this._turn(state, name, terms, campaign.hash, document.one_in)) return notAsked;
    const period = periodOf(document, day);
    const id = await this._id(state, notice, period);
    const parted = round.document.part.join() !== EVERYONE;
    if (parted && !holds(round.part, await partingWord(id, unhex(campaign.hash)))) return notAsked;
    let standing = period && state.standing.find((one) => one.series === name && one.terms === terms && one.first === period.first);
    const [free, ignored] = [Boolean(standing), []];
    if (!standing) {
      this._pay(state, notice, day);
      const look = this._look(round, record);
      ignored.push(...look.ignored);
      standing = { series: name, terms, ...period, report: hex(id), payload: hex(drawn(round, look.pairs, id, this.coins)) };
      if (period) state.standing = [...state.standing.filter((one) => one.series !== name || one.last >= day), standing];
    }
    const { report, payload } = standing;
    const epsilon = free ? "0" : text(round.cost);
    const { mechanism } = round;
    state.entries.push({ day, series: name, schema: campaign.schema.hash, campaign: campaign.hash, round: round.number, mechanism: mechanism.name, fingerprint: hex(mechanism.fingerprint), epsilon, report, free });
    const parcel = { name, campaign: campaign.hash, round: round.number, document: round.hash, report, payload, token, state: "waiting", code: null, attempts: 0 };
    state.parcels.push(parcel);
    return [parcel, outcome(name, { ...parcel, epsilon, used: !free, ignored })];
  }

  async _send(parcel, told) {
    const receipt = await deliver(parcel, this);
    await this._transaction(async (state) => {
      const kept = state.parcels.find((one) => one.campaign === parcel.campaign && one.round === parcel.round && one.state === "waiting");
      if (!kept) return;
      Object.assign(kept, { state: receipt.state, code: receipt.code, attempts: kept.attempts + receipt.attempts });
      if (receipt.state !== "waiting") kept.token = null;
    });
    return { ...told, state: receipt.state, code: receipt.code };
  }

  _id(state, { campaign, round }, period) {
    if (period) return derivedId(state.secret, "period", campaign.name, campaign.terms, period.first);
    if (round.document.part.join() !== EVERYONE) return derivedId(state.secret, "seat", campaign.name, campaign.hash);
    return derivedId(state.secret, "round", campaign.name, round.hash);
  }

  /** Refuse a draw that does not fit the caps; the first draw of a campaign must fit with all that may follow. */
  _pay(state, { campaign, round }, day) {
    const [whole, spent] = [campaign.epsilon, spentOn(state, campaign.name, campaign.hash)];
    refuseBeyond(round.cost, [{ what: "for this campaign", limit: text(whole), spent }]);
    const several = campaign.document.protocol.name === "pilot";
    const begun = reserved(state, day).some((one) => one.campaign === campaign.hash);
    refuseBeyond(several && !begun ? subtract(whole, spent) : round.cost, lines(state, campaign.schema.hash, day, campaign.hash));
    if (several && !begun)
      state.reservations.push({ series: campaign.name, campaign: campaign.hash, schema: campaign.schema.hash, epsilon: text(whole), until: campaign.until });
  }

  /** Whether a draw would be made now, without making one. */
  _mayDraw(state, notice, durable) {
    if (!notice.round || found(state, notice)) return;
    this._refuseSignal();
    this._refuseClosed(notice);
    this._mayAnswer(state, notice, durable);
    this._pay({ ...state, reservations: [...state.reservations] }, notice, this._day(state));
  }

  _mayAnswer(state, { campaign, round }, durable) {
    const { name, document } = campaign;
    if (!durable && document.browser !== true) refuse("storage/fleeting", `${name} is not for browsers that may forget what was spent.`);
    const [today, day] = [this._today(), this._day(state)];
    if (daysBetween(state.latest, today) > MOST_JUMP) refuse("device/clock", `The clock says ${today}: set it, or say that it is right.`);
    const period = periodOf(document, day);
    const opened = openedOn(campaign, round);
    for (const pause of state.pauses.filter((one) => one.series === name))
      if ((opened ? opened <= pause.day : pause.campaign === campaign.hash) || (period && period.first <= pause.day))
        refuse("report/withdrawn", `Consent to ${name} was withdrawn on ${pause.day}: what had begun by then is not answered, the next one is.`);
  }

  /** Refuse a round outside its dates, which the owner was shown. */
  _refuseClosed({ campaign, round }) {
    const [today, opened] = [this._today(), openedOn(campaign, round)];
    const closes = campaign.document.rounds[round.number - 1]?.closes ?? campaign.until;
    if (today < (opened ?? today) || today > (closes ?? today)) refuse("round/closed", `Round ${round.number} of ${campaign.name} is not open today.`);
  }

  /** Refuse a campaign that is neither the one agreed to nor a later one of its series with the same terms. */
  _check(state, name, { hash, terms, starts, document }) {
    const known = state.consents[name];
    if (!known?.campaign || known.campaign === hash) return;
    if (known.terms !== terms) refuse("campaign/changed", `${name} now asks something else than was agreed to: show it and consent again.`);
    if (!known.ends || starts <= known.ends) refuse("campaign/changed", `${name} was changed, and is no later campaign of its series.`);
    if (daysBetween(known.starts, starts) < (document.every_days ?? 1)) refuse("campaign/changed", `${name} returns sooner than it may.`);
  }

  /** Refuse a round that was changed, or that comes after a later one; remember it otherwise. */
  _follow(state, { campaign, round }) {
    const seen = (state.met[campaign.hash] ??= {});
    if (seen[round.number] === round.hash) return;
    if (seen[round.number]) refuse("round/changed", `Round ${round.number} is not the one that was served before.`);
    const latest = Math.max(0, ...Object.keys(seen).map(Number));
    if (round.number < latest) refuse("round/order", `Round ${round.number} comes after round ${latest}.`);
    seen[round.number] = round.hash;
  }

  /** Which campaigns of a series a device answers: by one coin for the series, and by counting. */
  _turn(state, name, terms, campaign, oneIn) {
    const turn = (state.turns[`${name}/${terms}`] ??= { place: this.coins.below(oneIn), met: -1, campaign: null });
    if (turn.campaign !== campaign) Object.assign(turn, { met: turn.met + 1, campaign });
    return turn.met % oneIn === turn.place;
  }

  _look({ mechanism, schema }, record) {
    const { pairs, ignored } = schema.look(record);
    if (mechanism.cap !== undefined && pairs.length > mechanism.cap)
      ignored.push({ why: "surplus", key: "", sentence: `Of ${pairs.length} pairs only ${mechanism.cap} count, chosen at random.` });
    return { pairs, ignored };
  }

  // -- storage, clock and signals -------------------------------------------------------------------------------

  /** Run a step alone with the books, and keep what it changed; a step that fails changes nothing. */
  async _transaction(step) {
    return this.storage.alone(async () => {
      const kept = await this.storage.read();
      if (kept === null && this._secret !== null) refuse("storage/vanished", "What this device had spent is gone: it answers nothing more.");
      const state = kept === null ? this._fresh() : JSON.parse(kept);
      if (this._secret !== null && this._secret !== state.secret) refuse("storage/vanished", "The books of this device were replaced: it answers nothing more.");
      if (this._secret === null) state.caps = changedCaps(state.caps, this._caps, kept === null);
      const before = JSON.stringify(state);
      const result = await step(state);
      const text = JSON.stringify(state);
      if (text !== before || text !== kept) {
        await this.storage.write(text);
        if ((await this.storage.read()) !== text) refuse("storage/refused", "What was written here cannot be read back, so nothing is answered.");
      }
      this._secret = state.secret;
      return result === undefined ? result : structured(result);
    });
  }

  _fresh() {
    const [secret, day] = [hex(this.coins.bytes(32)), this._today()];
    const empty = { entries: [], parcels: [], standing: [], pauses: [], reservations: [], consents: {}, met: {}, turns: {} };
    return { keyveil: 1, secret, since: day, latest: day, caps: { ...CAPS }, ...empty };
  }

  _today() {
    return this.now().toISOString().slice(0, 10);
  }

  /** The latest day ever seen, so that setting the clock back gives no budget back. */
  _day(state) {
    const today = this._today();
    return today > state.latest ? today : state.latest;
  }

  _signal() {
    const { globalPrivacyControl, doNotTrack } = globalThis.navigator ?? {};
    return !this.ignoreSignals && (globalPrivacyControl === true || doNotTrack === "1");
  }

  _refuseSignal() {
    if (this._signal()) refuse("consent/signal", "This browser asks not to be tracked (Global Privacy Control or Do Not Track).");
  }

  async _refusal(attempt) {
    try {
      await attempt();
      return null;
    } catch (reason) {
      return reason.message;
    }
  }

  async _read(name) {
    if (!/^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/.test(name)) refuse("campaign/name", "A campaign's name looks like snack-survey.");
    const get = async (path) => {
      const answer = await this.transport.request("GET", path, undefined, { Accept: "application/json" });
      if (answer.status !== 200) refuse(problemCode(answer) ?? "transport/status", `The collector answered ${answer.status}.`);
      return answer.body;
    };
    const body = await get(`/v1/campaigns/${name}`);
    const notice = await readNotice(body, name, this.mechanisms, (wanted) => get(`/v1/dictionaries/${wanted}`));
    if (notice.round) notice.round.schema = notice.campaign.schema;
    return notice;
  }
}

/** The padded payload of a new report: the only place where randomness is drawn for a record. */
function drawn({ mechanism }, pairs, id, coins) {
  const payload = mechanism.encode(mechanism.respond(pairs, id, coins), id);
  return pad(payload, reportBytes(mechanism.codec), mechanism.codec.varies);
}

/** Results are copies, so that nobody holds the books in their hands. */
const structured = (result) => (Array.isArray(result) ? result.map((one) => (one && typeof one === "object" ? { ...one } : one)) : result);

const given = ({ terms, hash, starts, ends }) => ({ state: "given", terms, campaign: hash, starts, ends });

function need(state, name) {
  const { state: consent } = state.consents[name] ?? {};
  if (consent === "withdrawn") refuse("consent/withdrawn", `Consent to ${name} was withdrawn; it can be given again.`);
  if (consent !== "given") refuse("consent/needed", `Nobody has agreed to ${name} yet: explain it, then consent.`);
}

const found = (state, { campaign, round }) =>
  state.parcels.find((one) => one.campaign === campaign.hash && one.round === round.number);

/** The first day on which a round could have been open, if one is named; rounds open in their order. */
const openedOn = ({ document }, round) =>
  document.rounds.slice(0, round.number).map((window) => window.opens).filter(Boolean).sort().at(-1) ?? null;

/** The report that was made before; with a new token if it waits, or was refused because of its token. */
function renewed(earlier, token) {
  if (earlier.state === "withdrawn") refuse("report/withdrawn", `The report of round ${earlier.round} was withdrawn for good.`);
  const lacks = earlier.state === "refused" && (earlier.code ?? "").startsWith("enrolment/");
  if (token !== null && (lacks || earlier.state === "waiting")) Object.assign(earlier, { state: "waiting", token, code: null });
  return [earlier, outcome(earlier.name, earlier)];
}

/** @returns {Outcome} */
const outcome = (name, { state, round = null, epsilon = "0", report = null, code = null, used = false, ignored = [] }) => ({ campaign: name, state, round, epsilon, report, code, used, ignored });
