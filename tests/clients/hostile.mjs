// What a device that agreed to an honest campaign says to each of the views in a file; nothing may be drawn or sent.
// Without an honest campaign each view is agreed to itself. `node hostile.mjs FILE small` asks the small device.
import { readFileSync } from "node:fs";

const { Coins, Device, MemoryStorage } = await import(`../../clients/javascript/${process.argv[3] ?? "node"}.js`);
const { honest, views } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const headers = { get: () => "application/json" };
const found = [];
for (const view of views) {
  let served = honest ?? view;
  let sent = 0;
  const transport = {
    request: async (method) => {
      if (method === "POST") sent++;
      return { status: 200, headers, body: Buffer.from(served, "base64") };
    },
  };
  const storage = new MemoryStorage();
  const device = new Device({ storage, transport, now: () => new Date("2026-11-20T12:00:00Z"), patience: { pace: 0, tries: 1 } });
  await device.consent("snack-survey");
  if (honest) device.coins = new Coins(() => { throw new Error("something was drawn"); });
  const before = storage.text;
  served = view;
  let code = "nothing";
  try {
    await device.report("snack-survey", { fries: 4 });
  } catch (error) {
    code = error.code ?? String(error);
  }
  found.push({ code, sent, same: storage.text === before });
}
console.log(JSON.stringify(found));
