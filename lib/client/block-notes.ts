// Reads from whole blocks what a client needs to know to resume the stream.
import { mayConcernRequests, type Message, messagesOf } from '../protocol/json-rpc.js'
import { dataOf, fieldOf } from '../protocol/sse-fields.js'
import { readWholeBlocks } from '../protocol/whole-blocks.js'

export interface BlockNotes {
  /** The last event id. An empty one resets the id (WHATWG 9.2.6). */
  id?: string
  /** The last reconnection time, in milliseconds. */
  retry?: number
  /** Whether an event has data; a primer has only an id. */
  hasData: boolean
  /** All responses, requests and cancellations; other messages may be among them. */
  readonly messages: Message[]
}

/** Reads whole blocks, with the line ends that they were received with. */
export function notesOf(blocks: Uint8Array): BlockNotes {
  const notes: BlockNotes = { hasData: false, messages: [] }
  readWholeBlocks(blocks, (bytes, from, to, fields) => {
    const id = fields.hasId ? fieldOf(bytes, from, to, 'id') : undefined
    if (id !== undefined && !id.includes('\0')) notes.id = id
    const retry = fieldOf(bytes, from, to, 'retry')
    if (retry !== undefined && /^\d+$/.test(retry)) notes.retry = Number(retry)
    const { dataLines, dataFrom, dataTo, isMessage } = fields
    if (dataLines === 0 || (dataLines === 1 && dataFrom === dataTo)) return
    notes.hasData = true
    const mayConcern = dataLines > 1 || mayConcernRequests(bytes, dataFrom, dataTo)
    if (isMessage && mayConcern) noteMessages(dataOf(bytes, from, to, fields), notes)
  })
  return notes
}

function noteMessages(data: string, { messages }: BlockNotes): void {
  try {
    for (const message of messagesOf(JSON.parse(data))) messages.push(message)
  } catch {
    // Not JSON: the client that reads the body reports it.
  }
}
