/** KVUE: randomised response on the state of one key, which follows from the report's id. */
import { labelsOf, trueState } from "../channels.js";
import { symbol } from "../codecs.js";
import { binned, publicIndex, read } from "../mechanisms.js";

export function kvue({ schema, epsilon, options }) {
  const labels = labelsOf(schema, read(options, binned(schema, options)));
  const channel = trueState(1 + labels.count, epsilon);
  const respond = (pairs, word, coins) => {
    const key = publicIndex(word, schema.d);
    const held = pairs.find((pair) => pair[0] === key);
    return channel.draw(held ? 1 + labels.draw(held[1], coins, key) : 0, coins);
  };
  return { ratio: channel.ratio, codec: symbol(1 + labels.count), respond };
}
