// The endpoint's side of a conversation: what it does with a request, line by line, whether it is
// written by hand or a tool of an SDK.

import type { RawCall } from '../endpoints/raw.js'
import type { ToolContext } from '../endpoints/tools.js'
import { gate } from '../gate.js'
import { notification, request, result as resultOf, type RequestId } from '../mcp.js'
import type { Json } from '../open-stream.js'

/** What the endpoint does next. Several stand for a request; a promise is waited for. */
export type Line = (call: RawCall, run: Run) => unknown
export type Script = readonly Line[]

/** The nth message of a call: a log message with a number, and so many characters. */
export const noteOf = (n: number, size = 0): object =>
  notification('notifications/message', {
    level: 'info',
    data: size ? `${n} `.padEnd(size, 'x') : n
  })

export const elicitation = (id: RequestId): object =>
  request(id, 'elicitation/create', {
    message: 'Who are you?',
    requestedSchema: { type: 'object', properties: {} }
  })

/** One request, and how far its script has come. */
export class Run {
  /** Of an endpoint by hand; a tool of an SDK has none. */
  readonly call: RawCall
  readonly tool: ToolContext | undefined
  /** The lines that it has begun. */
  readonly done: string[] = []
  /** What lines have thrown that were not to throw. */
  readonly faults: unknown[] = []
  /** Its response was closed before it had ended it. */
  wasCut = false
  readonly #asked = new Map<RequestId, (answer: Json) => void>()
  readonly #outcome = gate<unknown>()
  #release: (() => void) | undefined
  #rested = gate()

  constructor(call: RawCall | undefined, tool?: ToolContext) {
    this.call = call as RawCall
    this.tool = tool
    call?.res.on('close', () => (this.wasCut = !call.res.writableEnded))
  }

  /** Line by line; what needs not be waited for is done in one tick. */
  async perform(script: Script): Promise<void> {
    try {
      for (const line of script) {
        this.done.push(line.name)
        const done = line(this.call, this)
        if (done instanceof Promise) await done
      }
    } catch (error) {
      this.faults.push(error)
    } finally {
      this.#rested.open()
    }
  }

  /** What the tool comes to. */
  get outcome(): Promise<unknown> {
    return this.#outcome.opened
  }

  emit(message: Json): unknown {
    if (this.tool === undefined) return this.call.emit(message)
    return this.tool.notify(message.method, message.params)
  }

  /** Resolves with the answer that the endpoint has got. */
  ask(id: RequestId): Promise<unknown> {
    if (this.tool !== undefined) return this.tool.elicit(String(id))
    return new Promise(resolve => {
      this.#rested.open()
      this.#asked.set(id, resolve)
      this.call.emit(elicitation(id))
    })
  }

  readonly answered = (message: Json): void => this.#asked.get(message.id)?.(message)

  finish(value: unknown): void {
    if (this.tool === undefined) this.call.result(value)
    else this.#outcome.open(value)
  }

  hold(): Promise<void> {
    return new Promise(resolve => {
      this.#release = resolve
      this.#rested.open()
    })
  }

  /**
   * Ends the hold that it is in, or comes to next, and waits until it has come to another,
   * to a question, or is done.
   */
  async go(): Promise<void> {
    await this.#rested.opened
    this.#rested = gate()
    if (this.#release === undefined) this.#rested.open()
    this.#release?.()
    this.#release = undefined
    await this.#rested.opened
  }
}

/** Gives a word the name that a failing conversation shows. */
export function named<Word extends (...args: never[]) => unknown>(name: string, word: Word): Word {
  return Object.defineProperty(word, 'name', { value: name })
}

/** The head, and nothing more yet. */
export const open: Line = call => call?.open()

/** A log message with this number. */
export const note = (n: number, size = 0): Line =>
  named(`note(${n})`, (_, run) => run.emit(noteOf(n, size)))

/** Messages `from` to `to`. */
export const notes = (from: number, to: number, size = 0): Line =>
  named(`notes(${from}, ${to})`, (_, run) => {
    for (let n = from; n <= to; n++) void run.emit(noteOf(n, size))
  })

/** Any message. */
export const emit = (message: object): Line => named('emit', (_, run) => run.emit(message))

/** Asks its client under these ids, all at once, and goes on when all are answered. */
export const ask = (...ids: RequestId[]): Line =>
  named(`ask(${ids.join(', ')})`, (_, run) => Promise.all(ids.map(id => run.ask(id))))

/** The same, without waiting. */
export const asks = (...ids: RequestId[]): Line =>
  named(`asks(${ids.join(', ')})`, (_, run) => ids.forEach(id => void run.ask(id)))

/** Waits for the client's `go`. */
export const hold: Line = (_, run) => run.hold()

/** One turn of the event loop, on either side. */
export const turn = () => new Promise(setImmediate)

/** Answers with an empty result, and ends. */
export const result: Line = (_, run) => run.finish({})

/** Answers with this. */
export const resultIs = (value: unknown): Line => named('resultIs', (_, run) => run.finish(value))

/** Answers in JSON: a result with this value. */
export const json = (value: unknown = {}): Line =>
  named('json', ({ res, message }) =>
    res
      .writeHead(200, { 'Content-Type': 'application/json' })
      .end(JSON.stringify(resultOf(message.id, value)))
  )

/** Refuses with this status. */
export const refuse = (status: number, body = 'no'): Line =>
  named(`refuse(${status})`, ({ res }) => res.writeHead(status).end(body))

/** Ends its response, whatever is missing. */
export const leave: Line = call => call.res.end()

/** Destroys its response. */
export const destroy: Line = call => call.res.destroy()
