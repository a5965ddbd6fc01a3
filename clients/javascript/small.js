/** The device with `ssr` and `kvue`, for campaigns for browsers; without words. */
import { Device as Base } from "./src/client/device.js";
import { kvue } from "./src/mechanisms/kvue.js";
import { ssr } from "./src/mechanisms/ssr.js";

export { Coins } from "./src/coins.js";
export { KeyveilError } from "./src/wire.js";
export { BrowserStorage, MemoryStorage } from "./src/client/storage.js";
export const mechanisms = { ssr, kvue };

export class Device extends Base {
  constructor(given) {
    super({ mechanisms, ...given });
  }
}
