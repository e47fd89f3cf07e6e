// May this client look in on tasks here, and has the endpoint tasks of its own: the endpoint's word
// on both, kept for a while so that polling does not double its load.
import type { TLSSocket } from 'node:tls'
import { LRUCache } from 'lru-cache'
import { CLOCK } from '../../protocol/clock.js'
import { isObject, type Message } from '../../protocol/json-rpc.js'
import { hasOwnTasks } from '../../protocol/tasks.js'
import { verdictOf } from '../../endpoint/admission.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext } from '../../endpoint/request-context.js'

type Verdict = Awaited<ReturnType<typeof verdictOf>>

/** Milliseconds for which a yes is believed: who is shut out can still look in for so long. */
const BELIEVED_FOR = 5000
const MOST_CLIENTS = 10_000
/** Paths of endpoints: what a client makes up is not remembered for ever. */
const MOST_ENDPOINTS = 1000

/** Headers that are another in each request, and say nothing of who makes it. */
const OF_ONE_REQUEST =
  /^(?:accept.*|content-.*|connection|date|mcp-(?:method|name|param-.*)|idempotency-key|traceparent|tracestate|baggage|b3|x-b3-.*|x-request-id|x-correlation-id|x-amzn-trace-id|x-cloud-trace-context|cf-ray)$/i

export class TaskAdmission {
  readonly #parts: InstanceParts
  readonly #admitted = new LRUCache<string, true>({
    max: MOST_CLIENTS,
    ttl: BELIEVED_FOR,
    ttlResolution: 0,
    perf: CLOCK
  })
  /** Those that wait for the endpoint's word on the same client. */
  readonly #asking = new Map<string, Promise<boolean>>()
  readonly #hasOwn = new LRUCache<string, { readonly value: boolean }>({ max: MOST_ENDPOINTS })

  constructor(parts: InstanceParts) {
    this.#parts = parts
  }

  /** Whether the endpoint has tasks of its own; `undefined`: it has not said so yet. */
  hasOwnTasks({ path }: RequestContext): boolean | undefined {
    return this.#hasOwn.get(path)?.value
  }

  /** What the endpoint has declared, before anything of ours was added. */
  note(context: RequestContext, capabilities: unknown): void {
    if (!isObject(capabilities)) return
    const value = hasOwnTasks(capabilities)
    if (value && this.hasOwnTasks(context) !== true)
      this.#parts.debug('no tasks for %s: the endpoint has tasks of its own', context.path)
    this.#hasOwn.set(context.path, { value })
  }

  /** What the endpoint makes of this client. A refusal is the caller's to pass on. */
  async ask(context: RequestContext, message: Message): Promise<Verdict> {
    const key = this.#keyOf(context)
    // Whoever has come first may be told no for a reason of its own: it has left, say.
    if (this.#admitted.has(key) || (await this.#asking.get(key)) === true)
      return { kind: 'admitted' }
    const asked = verdictOf(context, message)
    const isAdmitted = asked.then(({ kind }) => kind === 'admitted')
    this.#asking.set(key, isAdmitted)
    const verdict = await asked
    if (this.#asking.get(key) === isAdmitted) this.#asking.delete(key)
    if (verdict.kind !== 'admitted') return verdict
    this.#admitted.set(key, true)
    const result = verdict.message?.result
    if (isObject(result) && isObject(result['capabilities']))
      this.note(context, result['capabilities'])
    else if (this.hasOwnTasks(context) === undefined) this.note(context, {})
    return verdict
  }

  /** All that a guard may know a client by. */
  #keyOf({ req, owner }: RequestContext): string {
    const { rawHeaders, socket } = req
    const headers: string[] = []
    for (let i = 0; i + 1 < rawHeaders.length; i += 2)
      if (!OF_ONE_REQUEST.test(rawHeaders[i] as string))
        headers.push(rawHeaders[i] as string, rawHeaders[i + 1] as string)
    const { authorized } = socket as TLSSocket
    const certificate = authorized ? (socket as TLSSocket).getPeerCertificate().fingerprint256 : ''
    const url = req.originalUrl ?? req.url
    return this.#parts.hash(
      JSON.stringify([owner, url, socket.remoteAddress, certificate, headers])
    )
  }
}
