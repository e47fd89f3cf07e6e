// The events in the log of a call: messages, parts of its result, and the answer with its headers.
import { dataOf, newFields, readFields } from '../protocol/sse-fields.js'
import { onOneLine } from '../protocol/sse-writer.js'
import type { EventLog } from '../streams/event-log.js'
import type { WrittenAnswer } from '../endpoint/endpoint-answer.js'

const encoder = new TextEncoder()

/** The event of a part of the result; `text` is JSON on one line. */
export function encodePart(text: string): Uint8Array {
  return encoder.encode(`event: part\ndata: ${text}\n\n`)
}

/**
 * The event of an answer. Line ends in JSON are white space, so they may be removed; the body of
 * another HTTP answer is kept byte for byte, as base64.
 */
export function encodeAnswer(answer: WrittenAnswer): Uint8Array {
  const { requestId, headers } = answer
  const [head, data] =
    answer.kind === 'response'
      ? [{ kind: answer.kind, requestId, headers }, onOneLine(answer.text)]
      : [
          { kind: answer.kind, requestId, status: answer.status, headers },
          answer.body.toString('base64')
        ]
  return encoder.encode(`event: answer\ndata: ${JSON.stringify(head)}\ndata: ${data}\n\n`)
}

/** The answer in an event that `encodeAnswer` has written; `undefined` for any other event. */
export function decodeAnswer(block: Uint8Array | undefined): WrittenAnswer | undefined {
  const data = block && dataIn(block, false)
  if (data === undefined) return undefined
  const end = data.indexOf('\n')
  const head = JSON.parse(data.slice(0, end)) as WrittenAnswer
  const rest = data.slice(end + 1)
  return head.kind === 'response'
    ? { ...head, text: rest }
    : { ...head, body: Buffer.from(rest, 'base64') }
}

/** The message in the event after a cursor; `undefined` if that event is no message. */
export function messageAfter(log: EventLog, cursor: number): string | undefined {
  const block = blockAt(log, cursor + 1)
  return block && dataIn(block, true)
}

/** The part of the result in an event; `undefined` if it is not kept any more. */
export function partAt(log: EventLog, sequence: number): string | undefined {
  const block = blockAt(log, sequence)
  return block && dataIn(block, false)
}

/** The answer in an event; `undefined` if it is not kept any more. */
export function answerAt(log: EventLog, sequence: number): WrittenAnswer | undefined {
  return decodeAnswer(blockAt(log, sequence))
}

/** The bytes of the log from an event on. */
function blockAt(log: EventLog, sequence: number): Uint8Array | undefined {
  return sequence < log.first || sequence > log.last ? undefined : log.read(sequence - 1).bytes
}

function dataIn(bytes: Uint8Array, isMessage: boolean): string | undefined {
  const fields = newFields()
  const to = readFields(bytes, 0, fields)
  return fields.isMessage === isMessage ? dataOf(bytes, 0, to, fields) : undefined
}
