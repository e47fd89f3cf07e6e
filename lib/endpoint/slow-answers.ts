// Endpoints that are slow: which requests wait, and what their clients get meanwhile.
import type { IncomingMessage } from 'node:http'
import { DueQueue } from '../streams/due-queue.js'
import { FairStore } from '../streams/fair-store.js'
import { isObject, type Message, paramsOf } from '../protocol/json-rpc.js'
import { acceptsEvents } from '../protocol/media-types.js'
import { CLIENT_INFO, metaOf } from '../protocol/envelope.js'

export interface SlowAnswersSettings {
  /** Milliseconds without a head after which a client gets an event stream; `null`: never. */
  readonly upgradeAfter: number | null
  /**
   * Milliseconds until a client that takes only JSON gets a head, and between spaces; `null`:
   * never.
   */
  readonly jsonKeepAlive: number | null
  readonly maxSessions: number
}

/** Times as long for a client that only claims to read event streams, as servers require it. */
const UNSHOWN = 5

/** Names in `initialize` of the official SDKs and of the large hosts. */
const KNOWN_CLIENTS = new RegExp(
  '^(?:mcp|mcp-inspector|inspector-client|claude-ai|claude-code|visual studio code.*|' +
    'cursor-vscode|codex-mcp-client|gemini-cli-mcp-client|goose)$',
  'i'
)

/** The request that waits. */
interface Asking {
  readonly req: IncomingMessage
  /** As its client has sent it. */
  readonly accept: string
  readonly prefersStream: boolean
  readonly owner: string
  readonly session: string | undefined
  readonly messages: readonly Message[]
}

export class SlowAnswers {
  /** Where clients wait that have shown that they read event streams; others wait here first. */
  readonly soon: DueQueue | undefined
  /** Where the others wait for the rest of their time. */
  readonly later: DueQueue | undefined
  /** Where clients wait that take only JSON. */
  readonly json: DueQueue | undefined
  /** Sessions whose clients have shown that they read event streams. */
  readonly #readers: FairStore<object>

  constructor({ upgradeAfter, jsonKeepAlive, maxSessions }: SlowAnswersSettings) {
    if (upgradeAfter !== null) {
      this.soon = new DueQueue(upgradeAfter)
      this.later = new DueQueue(upgradeAfter * (UNSHOWN - 1))
    }
    if (jsonKeepAlive !== null) this.json = new DueQueue(jsonKeepAlive)
    this.#readers = new FairStore({ maxSize: maxSessions })
  }

  /** The process is about to end: clients that wait get nothing in the meantime. */
  close(): void {
    for (const queue of [this.soon, this.later, this.json]) queue?.close()
  }

  /** The queue in which a request waits for its answer; `undefined`: none. */
  queueFor({ req, accept }: Asking): DueQueue | undefined {
    if (req.method !== 'POST' || (req.httpVersionMajor === 1 && req.httpVersionMinor === 0))
      return undefined
    return this.soon !== undefined && acceptsEvents(accept) ? this.soon : this.json
  }

  hasShown({ prefersStream, owner, session, messages }: Asking): boolean {
    if (prefersStream || messages.some(isOfKnownClient)) return true
    return session !== undefined && this.#readers.get(keyOf(owner, session)) !== undefined
  }

  /** It was given an event stream that it asked for, or has said in `initialize` who it is. */
  shown(owner: string, session: string): void {
    if (this.soon !== undefined) this.#readers.set(keyOf(owner, session), owner, SHOWN)
  }
}

const SHOWN = {}

/** Whether a request says that it is from a client that is known to read event streams. */
export function isOfKnownClient(message: Message): boolean {
  const params = paramsOf(message)
  const info = message.method === 'initialize' ? params['clientInfo'] : metaOf(params)[CLIENT_INFO]
  return isObject(info) && typeof info['name'] === 'string' && KNOWN_CLIENTS.test(info['name'])
}

function keyOf(owner: string, session: string): string {
  return JSON.stringify([owner, session])
}
