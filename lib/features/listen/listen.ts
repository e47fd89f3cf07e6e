// The listen channel: the GET on which a session gets what belongs to no call (Streamable HTTP,
// "Listening for Messages from the Server"). A client whose channel was cut opens a second one, and
// goes on with the one there is if its endpoint allows only one: such an endpoint answers 409, as
// the official SDKs do, and that is learnt.
import { attach, startOf } from '../../endpoint/attach.js'
import type { Answer, Feature } from '../../endpoint/feature.js'
import type { RequestContext, SecondChannel } from '../../endpoint/request-context.js'
import { setSessionHeader, setStreamHeaders } from '../../endpoint/stream-headers.js'
import type { Capture } from '../../http/capture-types.js'
import type { ResponseCapture } from '../../http/response-capture.js'
import { follow } from '../../routes/resume.js'
import { FairStore } from '../../streams/fair-store.js'
import { keyOf } from '../../streams/groups.js'
import type { Stream } from '../../streams/stream.js'

export class Listen implements Feature {
  readonly triggers = { verbs: ['GET'] }
  readonly #rules = new ListenRules()

  /** A GET of a session that has a listen channel already. */
  beforeEndpoint(context: RequestContext): Answer | undefined {
    const { method, session } = context
    if (method !== 'GET' || session === undefined) return undefined
    if (context.lastEventId !== undefined || !context.acceptsEvents) return undefined
    return context.isForeign ? undefined : this.#channelFor(context, session)
  }

  #channelFor(context: RequestContext, session: string): Answer | undefined {
    const { instance, owner } = context
    const channels = instance.table.index.findListening(session, owner)
    const [first] = channels
    if (first === undefined) return undefined
    const rules = this.#rules
    const rule = channels.length > 1 ? 'several' : rules.of(context)
    const mayAsk = !instance.isClosing && context.profile.isDurable
    if (rule === 'one' || (rule === undefined && !mayAsk))
      return () => followChannel(context, first)
    const parked = channels.filter(({ hasReader }) => !hasReader)
    // A channel without a client that has events left: the first client that comes gets them.
    const unread = parked.find(({ log }) => log.written < log.last)
    if (unread !== undefined) return () => followChannel(context, unread)
    const isOnly = channels.length === 1
    const channel = parked[0] ?? (isOnly ? first : undefined)
    context.secondChannel = channel && new SecondListener(context, rules, channel, isOnly)
    return undefined
  }
}

function followChannel(context: RequestContext, channel: Stream): void {
  follow(context, { kind: 'local', value: channel }, startOf(channel))
}

/** On its way to the endpoint, whose answer decides: another channel, or the one there is. */
class SecondListener implements SecondChannel {
  readonly #context: RequestContext
  readonly #rules: ListenRules
  readonly #channel: Stream
  /** The session has no other one: an endpoint that refuses another allows only one. */
  readonly #isOnly: boolean

  constructor(context: RequestContext, rules: ListenRules, channel: Stream, isOnly: boolean) {
    this.#context = context
    this.#rules = rules
    this.#channel = channel
    this.#isOnly = isOnly
  }

  allowed(): void {
    if (!this.#channel.isEnded) this.#rules.learn(this.#context, 'several')
  }

  refused(response: ResponseCapture): Capture | undefined {
    if (this.#channel.isEnded) return undefined
    if (this.#isOnly) this.#rules.learn(this.#context, 'one')
    if (response.wire.isGone || this.#context.res.destroyed) return undefined
    return new RefusalCapture(response, () => this.#follow(response))
  }

  #follow(response: ResponseCapture): void {
    const context = this.#context
    const channel = this.#channel
    const { wire } = response
    const hasHead = wire.sendHead(200, 'text/event-stream', head => {
      setSessionHeader(context, channel.sessionId, head)
      setStreamHeaders(context, channel.id, head)
    })
    if (!hasHead) return
    const profile = context.profileOn(channel)
    const connection = attach(context.instance, channel, startOf(channel), wire, profile)
    connection.flush()
    if (!connection.hasWritten && !connection.isClosed) wire.flushHead()
  }
}

/** Takes a refusal that the client does not get to see. */
class RefusalCapture implements Capture {
  readonly isFull = false
  readonly #response: ResponseCapture
  readonly #follow: () => void

  constructor(response: ResponseCapture, follow: () => void) {
    this.#response = response
    this.#follow = follow
  }

  headDue(): void {
    this.#follow()
  }

  write(): boolean {
    return true
  }

  end(): void {
    this.#response.showClose()
  }

  abort(): void {
    this.#response.showClose()
  }

  connectionClosed(): void {
    this.#response.showClose()
  }

  lateHead(): void {
    // Its head has come already.
  }
}

/** Where a rule holds: for an owner, at a path. */
interface ListenPlace {
  readonly owner: string
  /** The URL of the request, without its query. */
  readonly path: string
}

type ListenRule = 'one' | 'several'

interface Learned {
  readonly rule: ListenRule
  readonly size: number
}

/** Bytes of all that is remembered. */
const MOST_BYTES = 1024 * 1024
const ENTRY_SIZE = 256

/**
 * How many listen channels an endpoint allows a session, learnt from its answer to a second one. At
 * the limit, the owner with most entries makes room: what is evicted is learnt again.
 */
class ListenRules {
  readonly #learned = new FairStore<Learned>({ maxSize: MOST_BYTES, sizeOf: ({ size }) => size })

  /** `undefined`: the endpoint is to be asked. */
  of({ owner, path }: ListenPlace): ListenRule | undefined {
    return this.#learned.get(keyOf(owner, path))?.rule
  }

  learn({ owner, path }: ListenPlace, rule: ListenRule): void {
    const key = keyOf(owner, path)
    if (this.#learned.get(key)?.rule === rule) return
    this.#learned.set(key, owner, { rule, size: ENTRY_SIZE + key.length })
  }
}
