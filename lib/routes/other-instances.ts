// Requests for what another instance has: a stream, a token, a ticket, a session, a call under a
// key. Each goes to its owner whole, whose answer is the answer.
import { type InstanceLink, TAG_LENGTH } from '../backplane/instance-link.js'
import { now } from '../protocol/clock.js'
import { faultMessage, STREAM_ERROR } from '../protocol/errors.js'
import { isToldId, parseEventId, parseStreamName } from '../protocol/event-id.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import { errorResponse, isRequest, type Message, paramsOf } from '../protocol/json-rpc.js'
import { isStreamMethod } from '../protocol/stream-messages.js'
import { taskIdOf, taskMethodOf } from '../protocol/tasks.js'
import { tokenOf } from '../calls/token-request.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { readAhead } from '../endpoint/read-ahead.js'
import { answerJson, canAnswer, claim, noContent, refuse } from '../endpoint/reply.js'
import { answerSaved } from './saved-result.js'
import { EVENT_STREAM_HEAD, RelayedResponse, tellGone } from './relay-out.js'
import type { Answer, Context, RemoteAnswers } from './route.js'

export interface OtherInstancesSettings {
  readonly link: InstanceLink
  readonly parts: Pick<InstanceParts, 'sessions' | 'sessionEnded'>
  /** Sessions of other instances are sent to them. */
  readonly forwardsSessions: boolean
  /** Milliseconds for which a call under a key is remembered. */
  readonly keyTime: number
  readonly keepAlive: number | null
}

const ID = /^[\w-]{21}$/
/** Milliseconds for which a session is remembered: it is written again as long as it lasts. */
const SESSION_TIME = 24 * 60 * 60 * 1000
/** Milliseconds after which a session is looked for once more that has just been opened. */
const LOOK_AGAIN = 100
/** How long is waited for Redis, in leases, and how often it is asked in one. */
const PATIENCE = 2
const TRIES = 6

/** What is known of where something is: a tag, or that it cannot be known. */
type Holder = { readonly kind: 'instance'; readonly tag: string } | { readonly kind: 'unknown' }

export class OtherInstances implements RemoteAnswers {
  readonly #settings: OtherInstancesSettings
  readonly #link: InstanceLink

  constructor(settings: OtherInstancesSettings) {
    this.#settings = settings
    this.#link = settings.link
    const { directory } = settings.link
    const { sessions, sessionEnded } = settings.parts
    if (!settings.forwardsSessions) return
    sessions.onOpened = (id, owner) => directory.add('s', id, owner, SESSION_TIME)
    sessionEnded.add(id => directory.delete('s', id))
  }

  /** `undefined`: it is for this instance. */
  byHead(context: Context): Answer | undefined | Promise<Answer | undefined> {
    // A page that may not read streams learns nothing about them.
    if (context.isForeign) return undefined
    const { tag, directory } = this.#link
    const id = idIn(context)
    if (id !== undefined) return tagOf(id) === tag ? undefined : this.#at(tagOf(id), context)
    const { session } = context
    const isHere =
      session === undefined ||
      context.hasOversizedSession ||
      !this.#settings.forwardsSessions ||
      directory.has('s', session) ||
      directory.isAbsent('s', session, now())
    return isHere ? undefined : this.#bySession(session, context)
  }

  /** By what the messages of a POST name. */
  byBody(context: Context): Answer | undefined {
    const id = context.messages.map(message => idNamed(context, message)).find(isId)
    if (id === undefined || tagOf(id) === this.#link.tag || context.isForeign) return undefined
    return async () => {
      const verdict = await this.#link.look(tagOf(id))
      if (verdict === 'gone') return tellLost(context)
      this.#relay(tagOf(id), context, textOf(context))
    }
  }

  /** A call under a key: it is begun at one instance only. */
  byKey(context: Context, key: string): Promise<Answer | undefined> | undefined {
    const { directory } = this.#link
    return directory.has('k', key) ? undefined : this.#claim(context, key)
  }

  async #claim(context: Context, key: string): Promise<Answer | undefined> {
    const { keyTime } = this.#settings
    const { res, owner } = context
    const holder = await this.#patiently(() => this.#link.directory.claim('k', key, owner, keyTime))
    if (holder.kind === 'unknown') return () => unreachable(context)
    const { tag } = holder
    if (tag === this.#link.tag) return undefined
    const verdict = await this.#link.look(tag)
    return verdict === 'gone'
      ? () => refuse(res, 410, 'owner-gone')
      : () => this.#relay(tag, context, textOf(context))
  }

  async #bySession(session: string, context: Context): Promise<Answer | undefined> {
    const { directory, tag } = this.#link
    const find = (): Promise<string | undefined> => directory.find('s', session)
    const holder = await this.#patiently(async () => {
      const found = await find()
      if (found !== undefined) return found
      // Its owner may be about to say so.
      await pause(LOOK_AGAIN)
      return (await find()) ?? ''
    })
    if (holder.kind === 'unknown') return () => unreachable(context)
    if (holder.tag === '') directory.noteAbsent('s', session, now())
    return holder.tag === '' || holder.tag === tag ? undefined : this.#at(holder.tag, context)
  }

  /** What cannot be known at the moment is asked again for a while. */
  async #patiently(ask: () => Promise<string>): Promise<Holder> {
    const { lease } = this.#link.backplane
    for (let left = PATIENCE * TRIES; left > 0; left--) {
      try {
        return { kind: 'instance', tag: await ask() }
      } catch {
        await pause(lease / TRIES)
      }
    }
    return { kind: 'unknown' }
  }

  /** Sends a request to an instance, or says that what it wants is lost. */
  async #at(tag: string, context: Context): Promise<Answer | undefined> {
    const verdict = await this.#link.look(tag)
    if (!canAnswer(context.res)) return () => undefined
    if (verdict === 'gone') return this.#lost(tag, context)
    if (context.method !== 'POST') return () => this.#relay(tag, context, undefined)
    return () => this.#read(tag, context)
  }

  #read(tag: string, context: Context): void {
    const { req, owner, instance } = context
    const { bodies, maxBodyBytes } = instance
    readAhead(req, {
      owner,
      budget: bodies,
      limit: maxBodyBytes,
      mustWait: true,
      known: (body, text) => {
        context.learn(body, text)
        if (!canAnswer(context.res)) return
        this.#relay(tag, context, body === undefined ? undefined : textOf(context))
      },
      late: () => undefined
    })
  }

  #relay(tag: string, context: Context, body: string | undefined): void {
    const { instance, req, res, method, messages } = context
    if (!canAnswer(res)) return
    const { debug, maxBodyBytes } = instance
    debug('%s sent to the instance %s', method, tag)
    new RelayedResponse(req, res, {
      link: this.#link,
      tag,
      maxBodyBytes,
      keepAlive: this.#settings.keepAlive,
      debug,
      body,
      requestIds: messages.filter(isRequest).map(({ id }) => id),
      gone: () => void this.#goneMeanwhile(tag, context).catch(() => res.destroy())
    }).begin()
  }

  /** The other instance has gone before it has answered. */
  async #goneMeanwhile(tag: string, context: Context): Promise<void> {
    const { req, res, method } = context
    const answer = await this.#lost(tag, context)
    if (answer !== undefined) return void answer()
    if (res.headersSent) return tellGone(req, res, [])
    if (method === 'POST') return tellLost(context)
    refuse(res, 410, 'owner-gone')
  }

  /** What a client gets that names what is lost; `undefined`: what it would get here. */
  async #lost(tag: string, context: Context): Promise<Answer | undefined> {
    const { instance, req, res, method, lastEventId = '' } = context
    const id = idIn(context)
    if (id === undefined) return undefined
    const saved = method === 'GET' ? await this.#link.results.find(id) : undefined
    if (saved !== undefined) return answerSaved(context, saved)
    if (isToldId(lastEventId) && !res.headersSent) return () => noContent(res)
    // It was taken for dead, and is not: its client comes again.
    if (!(await this.#link.declareGone(id, tag)))
      return () => void (res.headersSent ? res.end() : unreachable(context))
    instance.count('refused', undefined, 'owner-gone')
    if (res.headersSent) return () => tellGone(req, res, [])
    if (method === 'GET' && parseEventId(lastEventId)?.requestId !== undefined)
      return () => {
        if (!claim(res)) return
        res.writeHead(200, EVENT_STREAM_HEAD)
        tellGone(req, res, [])
      }
    return streamNamesIn(req).length > 0 ? () => refuse(res, 410, 'owner-gone') : undefined
  }
}

/** By what a URL or a cursor names. */
function idIn({ instance, req, method, lastEventId }: Context): string | undefined {
  const [name] = streamNamesIn(req)
  if (name !== undefined) return parseStreamName(name)?.id
  const download = instance.resources?.downloadsIn(req).find(one => ID.test(one))
  if (download !== undefined) return download
  return method === 'GET' ? parseEventId(lastEventId ?? '')?.streamId : undefined
}

function textOf({ text, body }: Context): string {
  return text ?? JSON.stringify(body)
}

function unreachable({ res }: Context): void {
  refuse(res, 503, 'owner-unreachable', { 'Retry-After': '1' })
}

/** A POST whose calls are lost with their instance. */
function tellLost({ instance, res, messages, isBatch }: Context): void {
  const fault = 'owner-gone'
  instance.count('refused', undefined, fault)
  const errors = messages
    .filter(isRequest)
    .map(({ id }) => errorResponse(id, STREAM_ERROR, faultMessage(fault), { reason: fault }))
  if (errors.length === 0) return refuse(res, 410, fault)
  answerJson(res, 200, isBatch ? `[${errors.join(',')}]` : (errors[0] as string))
}

/** The instance that an id of ours is of. */
export function tagOf(id: string): string {
  return id.slice(0, TAG_LENGTH)
}

/**
 * What a message names by an id of ours: a call, a task, a stream, or what has asked the client.
 * Tokens and tasks may be the endpoint's own where we have none.
 */
function idNamed(context: Context, message: Message): string | undefined {
  const { tokens, tasks } = context.instance
  if (taskMethodOf(message) !== undefined)
    return tasks?.answerAbout(context) === undefined ? undefined : taskIdOf(message)
  const { streamId } = paramsOf(message)
  if (isStreamMethod(message)) return typeof streamId === 'string' ? streamId : undefined
  const token = tokens === undefined ? undefined : tokenOf(message)
  return token ?? parseForeignId(message.id)?.originId
}

function isId(value: string | undefined): value is string {
  return value !== undefined && ID.test(value)
}

function pause(time: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, time).unref())
}
