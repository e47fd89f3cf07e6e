// This instance as one of several: directory, forwarded requests, kept results.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { serverOf } from '../endpoint/endpoint-client.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import type {
  BackplaneStats,
  InstanceStats,
  OtherInstances,
  OtherInstancesHost
} from '../endpoint/other-instances.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { isLoopback, isRelayed, relayedWireOf } from '../http/loopback.js'
import { canAnswer, noContent } from '../http/reply.js'
import { closeAfter } from '../http/sockets.js'
import { label } from '../protocol/event-id.js'
import type { Answer, Context, RoutesInstance } from '../routes/route.js'
import type { Keeper } from '../streams/directory.js'
import type { Record } from '../streams/record.js'
import { Stream } from '../streams/stream.js'
import { UnderWay } from '../streams/when-idle.js'
import { SharedDirectory } from './directory.js'
import { elsewhereByHead, elsewhereByKey, elsewhereByMessage, relayBody } from './elsewhere.js'
import { type Exchange, type ExchangeUser, UNUSED } from './relay.js'
import { InstanceLink } from './instance-link.js'
import { RelayedRequest } from './relay-in.js'
import { MovedSessions } from './moved-sessions.js'
import { HandedBack, type RelayParts } from './relay-out.js'
import { encodeHead } from './relay-head.js'
import { RelayedResponses } from './relayed-responses.js'
import type { Backplane } from './types.js'

export class Membership implements OtherInstances<Context> {
  readonly directory: SharedDirectory
  readonly #instance: RoutesInstance
  readonly #link: InstanceLink
  readonly #relay: RelayParts
  readonly #responses = new RelayedResponses()
  /** Calls for clients of other instances. */
  readonly #calls = new UnderWay()
  /** What clients have posted here. */
  readonly #posts = new UnderWay()
  #isLeaving = false
  #server: Server | undefined

  /** @param instance its sessions are there already; nothing else is looked at before a request. */
  constructor(backplane: Backplane, instance: RoutesInstance, host: OtherInstancesHost<Context>) {
    const { debug, sessions, sessionEnded } = instance
    const { maxEntries, keptFor, keepAlive } = host
    this.#instance = instance
    const report = (error: Error): void => instance.report(error, undefined)
    const link = new InstanceLink(backplane, {
      maxEntries,
      resultTime: keptFor,
      accept: exchange => {
        const server = this.#server
        // No request has come to this instance yet, so that nothing that others look for is here.
        if (server === undefined) return handBack(exchange)
        return new RelayedRequest(exchange, server, this.#calls, debug)
      },
      leaseExpired: () => void abortDead(link, instance).catch(report),
      changed: state => host.changed(state, link.tag),
      report
    })
    this.#link = link
    this.#relay = {
      link,
      keepAlive,
      get silences() {
        return instance.connections.silences
      },
      responses: this.#responses,
      handedBack: new HandedBack(),
      moved: new MovedSessions(link, maxEntries),
      answerAgain: host.answerAgain
    }
    const forwardsSessions = backplane.sessions !== 'local'
    sessions.areShared = !forwardsSessions
    const { moved } = this.#relay
    const hasMoved = (session: string): boolean => moved.before(session).length > 0
    sessions.hasMoved = hasMoved
    this.directory = new SharedDirectory(host.here, link, {
      forwardsSessions,
      keyTime: keptFor,
      mayBeRevived: host.mayBeRevived
    })
    sessions.onOpened = this.directory.sessionOpened
    sessionEnded.add(this.directory.sessionEnded)
  }

  get tag(): string {
    return this.#link.tag
  }

  get newId(): () => string {
    return this.#link.newId
  }

  get kept(): Keeper {
    return this.#link.kept
  }

  get stats(): BackplaneStats {
    return this.#link.stats
  }

  instances(most: number): InstanceStats[] {
    return this.#link.instances(most)
  }

  byHead(context: Context): Answer | undefined | Promise<Answer | undefined> {
    const place = comesFromHolder(context)
      ? this.#relay.moved.taking(context.session)
      : elsewhereByHead(context, this.#relay)
    if (context.method !== 'DELETE' || streamNamesIn(context.req).length > 0) return place
    return place instanceof Promise
      ? place.then(answer => this.#endsHere(context, answer))
      : this.#endsHere(context, place)
  }

  byMessage(context: Context): Answer | undefined {
    const { moved } = this.#relay
    const answer = elsewhereByMessage(context, this.#relay)
    if (answer !== undefined) return answer
    const [first] = moved.before(context.session)
    if (first === undefined) return undefined
    if (moved.isForBefore(context)) return () => relayBody(context, this.#relay, first, 'named')
    moved.tell(context)
    return undefined
  }

  /** A session that ends here ends for its calls at another instance, too. */
  #endsHere(context: Context, elsewhere: Answer | undefined): Answer | undefined {
    if (elsewhere === undefined) this.#relay.moved.tell(context)
    return elsewhere
  }

  elsewhere(context: Context): Answer | undefined {
    const { req, res } = context
    const wire = relayedWireOf(req)
    if (wire !== undefined && wire.kind !== 'named')
      return () => {
        wire.isHandedBack = true
        noContent(res)
      }
    const tried = this.#relay.handedBack.of(context)
    // Who listens comes again, and not to this instance.
    const isPassedOn = context.method === 'POST' && wire === undefined
    if (!isPassedOn || tried.includes(NO_OTHER)) return undefined
    return () => this.#passOn(context, tried)
  }

  async #passOn(context: Context, tried: readonly string[]): Promise<void> {
    const { link, handedBack, answerAgain } = this.#relay
    for (const tag of link.epoch.staying) {
      if (tried.includes(tag) || (await link.look(tag)) !== 'alive') continue
      if (canAnswer(context.res)) closeAfter(context.req, context.res)
      return relayBody(context, this.#relay, tag, 'passed-on')
    }
    handedBack.add(context, NO_OTHER)
    if (canAnswer(context.res)) answerAgain(context)
  }

  byKey(context: Context): Promise<Answer | undefined> | undefined {
    return elsewhereByKey(context, this.#relay)
  }

  arrived(req: IncomingMessage, res: ServerResponse): void {
    if (isLoopback(req) || isRelayed(req)) return
    if (req.method === 'POST') {
      this.#posts.add(res)
      res.once('close', () => this.#posts.delete(res))
    }
    const { server } = req.socket as { server?: Server }
    this.#server = server ?? this.#server ?? serverOf(req)
  }

  streamEnded(ended: Stream | Record): void {
    const record = ended instanceof Stream ? ended.record : ended
    if (record !== undefined) {
      if (this.#isLeaving || !record.isDelivered) this.#keep(record)
      return
    }
    const stream = ended as Stream
    if (stream.isEphemeral) return
    if (this.#isLeaving) return this.#keep(stream.toRecord(true))
    // If its client is still there, the connection that is being opened counts a moment later.
    if (stream.readers.isConnecting)
      setImmediate(() => {
        if (stream.connections === 0) this.#keep(stream.record ?? stream.toRecord(true))
      })
  }

  beginClosing(comesBackWithin: number): void {
    this.#isLeaving = true
    this.#link.names.beginClosing()
    const { table, keys } = this.#instance
    for (const record of table.endedSince(comesBackWithin)) this.#keep(record)
    keys.keepSince(comesBackWithin)
  }

  stopListening(): void {
    this.#responses.stopListening()
  }

  hasSuccessor(): Promise<boolean> {
    return this.#link.epoch.hasSuccessor()
  }

  leave(): void {
    this.#responses.beginClosing()
  }

  whenAnswered(): Promise<void> | undefined {
    return this.#responses.whenIdle() ?? this.#posts.whenIdle()
  }

  whenCallsOver(): Promise<void> | undefined {
    return this.#calls.whenIdle()
  }

  cut(): void {
    this.#responses.close()
  }

  close(): Promise<void> {
    return this.#link.close()
  }

  #keep(record: Record): void {
    const { kind, isHandshake, last, details } = record
    if (kind !== 'request' || isHandshake || last === 0 || !record.isKept) return
    const { debug, keys } = this.#instance
    if (this.#link.results.save(record)) {
      if (details.callKey !== undefined) keys.keepStream(details.callKey)
    } else
      debug('stream %s: too much for others to find once this instance has gone', label(record))
  }
}

/** In the place of a tag: no other instance can begin a request. */
const NO_OTHER = ''

/** Nothing is begun here. */
function handBack(exchange: Exchange): ExchangeUser {
  exchange.write(encodeHead({ isHandedBack: true, status: 503, headers: [] }))
  exchange.end()
  return UNUSED
}

/** An instance has sent it here, as what it names is here. */
function comesFromHolder({ req }: Context): boolean {
  const wire = relayedWireOf(req)
  return wire !== undefined && wire.kind !== 'passed-on'
}

/** Aborts the calls whose clients have been told by another instance that they are lost. */
async function abortDead(
  link: InstanceLink,
  { table }: Pick<InstanceParts, 'table'>
): Promise<void> {
  for (const stream of [...table.running])
    if (await link.wasDeclaredGone(stream.id)) stream.fail('owner-gone')
}
