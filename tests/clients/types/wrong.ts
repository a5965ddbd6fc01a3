// Each marked line has a mistake that the declarations must notice: `@ts-expect-error` is an error itself where none is.
import { Coins, Device, MemoryStorage } from "keyveil";
import type { Outcome } from "keyveil";
import { explained } from "keyveil/explain";
import { FileStorage } from "keyveil/node";

// @ts-expect-error: a device needs storage
new Device({ collector: "https://collector.example" });
const device = new Device({ storage: new MemoryStorage() });
// @ts-expect-error: caps are texts, so that they are exact
device.limit({ life: 4 });
// @ts-expect-error: there is no such cap
device.limit({ lives: "4" });
// @ts-expect-error: consent is given to an explanation
device.consent("snacks", "yes");
// @ts-expect-error: a record maps keys to values
device.report("snacks", 4);
// @ts-expect-error: a token is text
device.report("snacks", {}, { token: 7 });
// @ts-expect-error: there is no such state
export const lost = (told: Outcome) => told.state === "lost";
// @ts-expect-error: a large bound gives a large number
export const small: number = new Coins().below(6n);
// @ts-expect-error: a file has a name
new FileStorage();
// @ts-expect-error: the words are about an explanation
explained("snacks");
// @ts-expect-error: what is private cannot be reached
device.secret;
