// A page as a shop would write it; ?collector= and ?campaign= say whom it answers.
import { BrowserStorage, Device } from "./client/index.js";

const asked = new URLSearchParams(location.search);
const name = asked.get("campaign");
const say = (text) => (document.querySelector("#outcome").textContent = text);

const channel = new BroadcastChannel("writes");
const otherWrites = new Promise((done) => (channel.onmessage = done));

/** Storage whose next write waits until another tab is about to write, too, or for as long as the test says. */
class SlowStorage extends BrowserStorage {
  async write(text) {
    const most = globalThis.wait ?? 0;
    globalThis.wait = 0;
    if (most) {
      channel.postMessage("here");
      await Promise.race([otherWrites, new Promise((done) => setTimeout(done, most))]);
    }
    return super.write(text);
  }
}

const storage = asked.has("slow") ? new SlowStorage() : new BrowserStorage();
const patience = { tries: 1, pace: Number(asked.get("pace") ?? 0) };
const device = new Device({ collector: asked.get("collector"), storage, patience });
const record = () =>
  Object.fromEntries([...new FormData(document.querySelector("#record"))].filter(([, text]) => text).map(([key, text]) => [key, Number(text)]));
const on = (button, act) =>
  document.querySelector(button).addEventListener("click", () =>
    act().then(say, (reason) => say(reason.code ?? `not a code: ${reason.name}: ${reason.message}`)));

let shown;
on("#explain", async () => {
  shown = await device.explain(name);
  document.querySelector("#shown").textContent = shown.text;
  return "explained";
});
on("#agree", async () => {
  await device.consent(name, shown);
  return "agreed";
});
on("#send", async () => {
  if (asked.has("eager")) await device.consent(name); // a page that asks nobody
  return (await device.report(name, record())).state;
});
Object.assign(globalThis, { device, campaign: name, BrowserStorage, Device });
say("ready");
