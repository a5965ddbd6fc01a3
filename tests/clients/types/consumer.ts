// A page in TypeScript as somebody would write it: it must compile.
import { BrowserStorage, Coins, Device, KeyveilError, MemoryStorage, mechanisms } from "keyveil";
import type { Entry, Explanation, Outcome, Preview, Storage } from "keyveil";
import { explained } from "keyveil/explain";
import { FileStorage } from "keyveil/node";
import { Device as Small, mechanisms as few } from "keyveil/small";

const storages: Storage[] = [new BrowserStorage("shop"), new MemoryStorage(false), new FileStorage("device.json")];
const device = new Device({
  collector: "https://collector.example",
  storage: storages[0],
  caps: { life: "4", days: 7 },
  patience: { tries: 3 },
  coins: new Coins((count) => new Uint8Array(count)),
  sleep: async (seconds) => console.log(seconds.toFixed(1)),
});
const small = new Small({ storage: storages[1], explained });

export async function answer(name: string): Promise<string | null> {
  try {
    const shown: Explanation = await device.explain(name);
    if (!shown.agreed) await device.consent(name, shown);
    const seen: Preview = await device.preview(name, new Map([["fries", 4]]));
    const told: Outcome = await device.report(name, { fries: 4, pepsi: 5 }, { token: null, shown });
    const entries: Entry[] = await small.ledger();
    const names: string[] = [...Object.keys(mechanisms), ...Object.keys(few), entries[0].mechanism];
    const place: number = seen.pairs[0][1] + device.coins.below(6);
    const weight: bigint = device.coins.below(6n);
    return told.state === "between" ? told.opens : `${told.code} ${names} ${place} ${weight} ${await device.withdraw(name)}`;
  } catch (reason) {
    return reason instanceof KeyveilError ? reason.code : null;
  }
}
