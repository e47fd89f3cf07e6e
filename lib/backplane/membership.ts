// This instance as one of several: directory, forwarded requests, kept results.
import type { IncomingMessage, Server } from 'node:http'
import { serverOf } from '../endpoint/endpoint-client.js'
import type { InstanceParts, InstanceLookUps } from '../endpoint/instance-parts.js'
import type {
  BackplaneStats,
  InstanceStats,
  OtherInstances,
  OtherInstancesHost
} from '../endpoint/other-instances.js'
import { isLoopback, isRelayed } from '../http/loopback.js'
import { label } from '../protocol/event-id.js'
import type { Answer, Context, RoutesInstance } from '../routes/route.js'
import type { Keeper } from '../streams/directory.js'
import type { Record } from '../streams/record.js'
import { Stream } from '../streams/stream.js'
import { SharedDirectory } from './directory.js'
import { elsewhereByHead, elsewhereByKey, elsewhereByMessage } from './elsewhere.js'
import { InstanceLink } from './instance-link.js'
import { RelayedCalls, RelayedRequest } from './relay-in.js'
import type { RelayParts } from './relay-out.js'
import { RelayedResponses } from './relayed-responses.js'
import type { Backplane } from './types.js'

export class Membership implements OtherInstances<Context> {
  readonly directory: SharedDirectory<InstanceLookUps>
  readonly #instance: RoutesInstance
  readonly #link: InstanceLink
  readonly #relay: RelayParts
  readonly #responses = new RelayedResponses()
  readonly #calls = new RelayedCalls()
  #isLeaving = false
  #server: Server | undefined

  /** @param instance its sessions are there already; nothing else is looked at before a request. */
  constructor(backplane: Backplane, instance: RoutesInstance, host: OtherInstancesHost) {
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
        if (server === undefined) return undefined
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
      responses: this.#responses
    }
    const forwardsSessions = backplane.sessions !== 'local'
    sessions.areShared = !forwardsSessions
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
    return isRelayed(context.req) ? undefined : elsewhereByHead(context, this.#relay)
  }

  byMessage(context: Context): Answer | undefined {
    return isRelayed(context.req) ? undefined : elsewhereByMessage(context, this.#relay)
  }

  byKey(context: Context): Promise<Answer | undefined> | undefined {
    return elsewhereByKey(context, this.#relay)
  }

  noteServer(req: IncomingMessage): void {
    if (isLoopback(req) || isRelayed(req)) return
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
    const { table, keys } = this.#instance
    for (const record of table.endedSince(comesBackWithin)) this.#keep(record)
    keys?.keepSince(comesBackWithin)
  }

  hasSuccessor(): Promise<boolean> {
    return this.#link.epoch.hasSuccessor()
  }

  leave(): void {
    this.#responses.beginClosing()
  }

  whenAnswered(): Promise<void> {
    return this.#responses.whenIdle()
  }

  whenCallsOver(): Promise<void> {
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
      if (details.callKey !== undefined) keys?.keepStream(details.callKey)
    } else
      debug('stream %s: too much for others to find once this instance has gone', label(record))
  }
}

/** Aborts the calls whose clients have been told by another instance that they are lost. */
async function abortDead(
  link: InstanceLink,
  { table }: Pick<InstanceParts, 'table'>
): Promise<void> {
  for (const stream of [...table.running])
    if (await link.wasDeclaredGone(stream.id)) stream.fail('owner-gone')
}
