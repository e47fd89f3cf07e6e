// What stands in whole blocks, as far as it matters to a client that may have to come back.
import { mayConcernRequests, type Message, messagesOf } from '../protocol/json-rpc.js'
import { dataOf, fieldOf } from '../protocol/sse-fields.js'
import { readWholeBlocks } from '../protocol/whole-blocks.js'

export interface BlockNotes {
  /** The last event id; '' takes back an earlier one. */
  id?: string
  /** The last reconnection time. */
  retry?: number
  /** There is an event with a message, and not only one that brings its id. */
  hasData: boolean
  /** Those that answer a request, make one, or take one back; others may be among them. */
  readonly messages: Message[]
}

/** Reads whole blocks, as they came. */
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
    // Not JSON: it is the reader's to complain about.
  }
}
