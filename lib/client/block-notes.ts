// What stands in whole blocks, as far as it matters to whoever may have to come back for more.
import {
  cancelledRequest,
  isRequest,
  isResponse,
  messagesOf,
  type RequestId
} from '../protocol/json-rpc.js'

export interface BlockNotes {
  /** The last event id; '' takes back an earlier one. */
  id?: string
  /** The last reconnection time. */
  retry?: number
  /** The requests whose responses are among them. */
  readonly answered: RequestId[]
  /** The requests of the server among them. */
  readonly asked: RequestId[]
  /** Requests of the server that it takes back, among holes. */
  readonly withdrawn: (RequestId | undefined)[]
}

/**
 * Data that does not begin as most notifications do, in the official SDKs and in most hand-written
 * servers.
 */
const MORE_THAN_NOTIFICATIONS = /\ndata(?!: \{("jsonrpc":"2.0",)?"method":"notifications\/[^c])/

/** Reads the text of whole blocks. */
export function notesOf(blocks: string): BlockNotes {
  const text = `\n${blocks}`
  const id = text.lastIndexOf('\nid')
  const isPlain = text.startsWith('\nid: ', id) && !text.includes('\nretry') && !text.includes('\r')
  // Most blocks are notifications, and of those only the last id counts.
  if (isPlain && !text.includes('\0') && !MORE_THAN_NOTIFICATIONS.test(text))
    return { id: text.slice(id + 5, text.indexOf('\n', id + 1)), ...newNotes() }
  return readFields(text.replace(/\r\n?/g, '\n').split('\n'))
}

/** [WHATWG 9.2.6] Interpreting an event stream. */
function readFields(lines: readonly string[]): BlockNotes {
  const notes: BlockNotes = newNotes()
  let data = ''
  let isMessage = true
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (name === 'id' && !value.includes('\0')) notes.id = value
    else if (name === 'retry' && /^\d+$/.test(value)) notes.retry = Number(value)
    else if (name === 'event') isMessage = /^(message)?$/.test(value)
    else if (name === 'data') data += value + '\n'
    else if (line === '') {
      if (isMessage && data !== '') noteMessages(data, notes)
      data = ''
      isMessage = true
    }
  }
  return notes
}

function noteMessages(data: string, { answered, asked, withdrawn }: BlockNotes): void {
  try {
    for (const message of messagesOf(JSON.parse(data))) {
      if (isResponse(message)) answered.push(message.id)
      else if (isRequest(message)) asked.push(message.id)
      else withdrawn.push(cancelledRequest(message))
    }
  } catch {
    // Not JSON: it is the reader's to complain about.
  }
}

function newNotes(): BlockNotes {
  return { answered: [], asked: [], withdrawn: [] }
}
