// A 400 to a session that was not handed out here becomes a 404: else, hosts keep it.
import type { ServerResponse } from 'node:http'
import type { RequestContext } from './request-context.js'
import { headerIn, headersIn, stringOf } from '../http/response-headers.js'
import { pipelineOf } from '../http/response-pipeline.js'
import { HeadStage } from '../http/stage.js'

/** Notes which sessions the endpoint knows, and says of others what the specification does. */
export function watchSession(context: RequestContext): void {
  const { instance, session, facts, isUnread, res } = context
  const mayBegin = isUnread || facts.isInitialize
  const isUnknown = session !== undefined && !instance.sessions.isSeen(session)
  if (mayBegin || isUnknown) pipelineOf(res).add(new WatchedSession(context))
}

class WatchedSession extends HeadStage {
  readonly kind = 'rewrite'
  readonly #context: RequestContext

  constructor(context: RequestContext) {
    super()
    this.#context = context
  }

  override writeHead(args: readonly unknown[]): ServerResponse {
    const status = Number(args[0])
    if (status >= 200 && status < 300) this.#note(headersIn(args))
    if (!this.#isUnknown(status)) return this.next.writeHead(args)
    return this.next.writeHead([404, ...args.slice(1)])
  }

  /** Before the stages behind this one read it, where the endpoint writes no head. */
  protected override implyHead(): void {
    const { res } = this.#context
    if (!this.hasHead && this.#isUnknown(res.statusCode)) res.statusCode = 404
  }

  #isUnknown(status: number): boolean {
    const { instance, session, method } = this.#context
    if (status !== 400 || session === undefined || instance.sessions.isSeen(session)) return false
    if (this.#context.learnParsed().isInitialize) return false
    instance.debug('%s in a session that was not begun here: its 400 becomes 404', method)
    return true
  }

  #note(given: unknown): void {
    const { instance, session, owner, res } = this.#context
    const named = headerIn(given, 'mcp-session-id') ?? stringOf(res.getHeader('mcp-session-id'))
    const { sessions } = instance
    if (session !== undefined) sessions.see(owner, session)
    if (named !== undefined) sessions.see(owner, sessions.nameOf(named))
  }
}
