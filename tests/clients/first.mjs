// Milliseconds of the first report of a process: reading the campaign, checking it, consent, drawing and storing.
import { readFileSync } from "node:fs";
import { Device, MemoryStorage } from "../../clients/javascript/node.js";

const { name, view, record } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const answer = (body) => ({ status: 200, headers: new Headers(), body: Uint8Array.from(Buffer.from(body)) });
const accepted = JSON.stringify({ accepted: 1, duplicates: 0, refused: [] });
const served = answer(JSON.stringify(view));
const transport = { request: async (method) => (method === "GET" ? served : answer(accepted)) };
const now = () => new Date("2026-11-20T12:00:00Z");
const start = performance.now();
const device = new Device({ storage: new MemoryStorage(), transport, now, patience: { pace: 0 } });
const shown = await device.explain(name);
await device.consent(name, shown);
const { state } = await device.report(name, record, { shown });
console.log(JSON.stringify({ milliseconds: performance.now() - start, state }));
