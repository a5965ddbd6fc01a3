// One mistake that is not marked: it must not compile.
import { Device, MemoryStorage } from "keyveil";

new Device({ storage: new MemoryStorage() }).report("snacks");
