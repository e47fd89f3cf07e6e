// Connects an instance to the backplane: directory, forwarded requests, kept results.
import type { IncomingMessage, Server } from 'node:http'
import { SharedDirectory, type SharedDirectorySettings } from './backplane/directory.js'
import { InstanceLink, type InstanceLinkHost } from './backplane/instance-link.js'
import type { Backplane } from './backplane/types.js'
import { label } from './protocol/event-id.js'
import type { Directory, LocalDirectory, Shelves } from './streams/directory.js'
import type { Stream } from './streams/stream.js'
import { debug, publishLink } from './diagnostics.js'
import { serverOf } from './endpoint/endpoint-client.js'
import type { InstanceParts } from './endpoint/instance-parts.js'
import { isLoopback, isRelayed } from './http/loopback.js'
import { RelayedCalls, RelayedRequest } from './routes/relay-in.js'
import type { RoutesInstance } from './routes/route.js'

export class BackplaneSeat {
  readonly link: InstanceLink
  readonly calls = new RelayedCalls()
  readonly #parts: Pick<RoutesInstance, 'table' | 'keys'>
  #isLeaving = false
  #server: Server | undefined

  constructor(
    backplane: Backplane,
    limits: Pick<InstanceLinkHost, 'maxEntries' | 'resultTime'>,
    parts: Pick<RoutesInstance, 'table' | 'keys' | 'report'>
  ) {
    this.#parts = parts
    const report = (error: Error): void => parts.report(error, undefined)
    this.link = new InstanceLink(backplane, {
      ...limits,
      accept: exchange => {
        const server = this.#server
        // No request has come to this instance yet, so that nothing that others look for is here.
        if (server === undefined) return undefined
        return new RelayedRequest(exchange, server, this.calls, debug)
      },
      lapsed: () => void abortDead(this.link, parts).catch(report),
      changed: state => {
        debug('backplane %s', state)
        publishLink(state, this.link.tag)
      },
      report
    })
  }

  directory<S extends Shelves<S>>(
    here: LocalDirectory<S>,
    { sessions, sessionEnded }: Pick<InstanceParts, 'sessions' | 'sessionEnded'>,
    settings: SharedDirectorySettings
  ): Directory<S> {
    const shared = new SharedDirectory(here, this.link, settings)
    sessions.onOpened = shared.sessionOpened
    sessionEnded.add(shared.sessionEnded)
    return shared
  }

  /** If no client reads it here, or this instance ends, its events are kept for the others. */
  ended(stream: Stream): void {
    const { readers, hasReader } = stream
    if (this.#isLeaving) return this.#keep(stream)
    if (!readers.isConnecting) return hasReader ? undefined : this.#keep(stream)
    // If its client is still there, the connection that is being opened counts a moment later.
    setImmediate(() => {
      if (readers.count === 0) this.#keep(stream)
    })
  }

  /**
   * What clients get from now on, or got in the last `time` ms, may be lost: it is kept for others.
   */
  beginClosing(time: number): void {
    this.#isLeaving = true
    const { table, keys } = this.#parts
    for (const stream of table.endedSince(time)) this.#keep(stream)
    keys?.keepSince(time)
  }

  /** Whether another instance can take over from this one, which is about to end. */
  hasSuccessor(): Promise<boolean> {
    return this.link.epoch.hasSuccessor()
  }

  #keep(stream: Stream): void {
    const { kind, isHandshake, isEphemeral, log, callKey } = stream
    if (kind !== 'request' || isHandshake || isEphemeral || log.last === 0) return
    if (this.link.results.save(stream)) {
      if (callKey !== undefined) this.#parts.keys?.keepStream(callKey)
    } else
      debug('stream %s: too much for others to find once this instance has gone', label(stream))
  }

  /** Remembers the server that a request came to: forwarded requests are given to it, too. */
  noteServer(req: IncomingMessage): void {
    if (isLoopback(req) || isRelayed(req)) return
    const { server } = req.socket as { server?: Server }
    this.#server = server ?? this.#server ?? serverOf(req)
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
