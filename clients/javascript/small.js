/** A device that answers `ssr` and `kvue` in campaigns for browsers; it leaves the words of an explanation to the page. */
import { Device as Base } from "./src/device.js";
import { kvue } from "./src/mechanisms/kvue.js";
import { ssr } from "./src/mechanisms/ssr.js";

export { Coins } from "./src/coins.js";
export { KeyveilError } from "./src/wire.js";
export { BrowserStorage, MemoryStorage } from "./src/storage.js";
export const mechanisms = { ssr, kvue };

export class Device extends Base {
  constructor(given) {
    super({ mechanisms, ...given });
  }
}
