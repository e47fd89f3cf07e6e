// The data of the events in whole blocks.
import { dataOf } from '../../protocol/sse-fields.js'
import { readWholeBlocks } from '../../protocol/whole-blocks.js'

interface EventText {
  readonly text: string
  /** The bytes before the event. */
  readonly before: Uint8Array
}

export function eventsIn(whole: Uint8Array): readonly EventText[] {
  const events: EventText[] = []
  readWholeBlocks(whole, (bytes, from, to, fields) => {
    if (fields.dataLines > 0)
      events.push({ text: dataOf(bytes, from, to, fields), before: bytes.subarray(0, from) })
  })
  return events
}
