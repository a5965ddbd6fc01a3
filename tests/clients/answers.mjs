// What a device makes of each answer to its upload in a file, and how long it pauses before it tries again.
import { readFileSync } from "node:fs";
import { Device, MemoryStorage } from "../../clients/javascript/node.js";

const { view, answers } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const found = [];
for (const { status, headers, body } of answers) {
  const [sent, naps] = [[], []];
  const say = (status, headers, body) => ({ status, headers: new Headers(headers), body: Uint8Array.from(Buffer.from(body, "base64")) });
  const transport = {
    request: async (method, path, content) => {
      if (method === "GET") return say(200, {}, view);
      sent.push(Buffer.from(content).toString("hex"));
      return say(status, headers, body);
    },
  };
  const now = () => new Date("2026-11-20T12:00:00Z");
  const sleep = async (seconds) => void naps.push(seconds);
  const device = new Device({ storage: new MemoryStorage(), transport, now, sleep, patience: { pace: 0, tries: 2 } });
  await device.consent("snack-survey");
  const { state, code } = await device.report("snack-survey", { fries: 4 });
  found.push({ state, code, sent: sent.length, different: new Set(sent).size, naps });
}
console.log(JSON.stringify(found));
