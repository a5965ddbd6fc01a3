// What a module of the client exports: `node exports.mjs FILE`. Methods and fields of classes, and of what devices give.
import { pathToFileURL } from "node:url";
import { hash } from "../../clients/javascript/src/wire.js";

const module = await import(pathToFileURL(process.argv[2]).href);
const chain = (made) => (made === Object.prototype ? [] : [made, ...chain(Object.getPrototypeOf(made))]);
const classes = Object.entries(module).filter(([, one]) => typeof one === "function" && one.prototype);
const methods = (made) => chain(made.prototype).flatMap(Object.getOwnPropertyNames).filter((name) => !["constructor", "stack", "message", "name", "toString"].includes(name));
const storage = new module.MemoryStorage();
const examples = { Device: [{ storage, transport: {} }], FileStorage: ["x"], KeyveilError: ["a/b"] };
const fields = (name, made) => Object.keys(new made(...(examples[name] ?? [])));

const campaign = {
  ...{ keyveil: 1, name: "snacks", purpose: "Snacks.", schema: { keys: 3, low: 1, high: 5 }, protocol: { name: "kvue", epsilon: "1", bins: null }, rounds: [{}] },
  ...{ min_reports: 1000, enrolment: "none", retention_days: 30, contact: "", browser: true },
};
const asked = { mechanism: "kvue", epsilon: "1", options: { bins: null }, part: ["0", "1"], round: 1, report_bytes: 1 };
const document = { keyveil: 1, campaign: await hash(campaign), ...asked };
const round = { number: 1, state: "open", hash: await hash(document), document };
const view = { campaign, hash: await hash(campaign), state: "open", round };
const answer = (said) => ({ status: 200, headers: new Headers(), body: new TextEncoder().encode(JSON.stringify(said)) });
const transport = { request: async (method) => answer(method === "GET" ? view : { accepted: 1, duplicates: 0, refused: [] }) };
const device = new module.Device({ storage, transport, patience: { pace: 0 } });
const shown = await device.explain("snacks");
await device.consent("snacks", shown);
const preview = await device.preview("snacks", { 9: 1 });
const outcome = await device.report("snacks", {});
const [entry] = await device.ledger();
const given = { Explanation: shown, Preview: preview, Outcome: outcome, Entry: entry, Ignored: preview.ignored[0], Caps: (await device.export()).caps };

console.log(
  JSON.stringify({
    names: Object.keys(module),
    members: Object.fromEntries(classes.map(([name, made]) => [name, methods(made)])),
    fields: Object.fromEntries(classes.map(([name, made]) => [name, fields(name, made)])),
    given: Object.fromEntries(Object.entries(given).map(([name, one]) => [name, Object.keys(one)])),
  }),
);
