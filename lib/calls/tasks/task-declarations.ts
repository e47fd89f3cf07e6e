// Adds tasks to what an endpoint declares, and to its lists of tools, if it has none of its own.
import { isObject, isResponse, type Message, objectIn } from '../../protocol/json-rpc.js'
import { FIRST_STATELESS_REVISION, parseRevision } from '../../protocol/revisions.js'
import { hasOwnTasks, TASKS_EXTENSION } from '../../protocol/tasks.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { type ReadHeader, rewriteAnswer } from '../../endpoint/rewrite-answer.js'
import { withTools } from '../tool-list.js'
import { declaringTasks, markedTool } from './core.js'
import type { TaskAdmission } from './task-admission.js'
import type { TasksSettings } from './task-settings.js'

/** The one revision whose core has tasks. */
const CORE_REVISION = '2025-11-25'
/** Greatest size in bytes of an answer that is looked at. */
export const LONGEST_ANSWER = 1024 * 1024

export class TaskDeclarations {
  readonly #tools: TasksSettings['tools']
  readonly #admission: TaskAdmission
  /** [2025-11-25] Some tools are set to become tasks. */
  readonly #hasTools: boolean

  constructor({ tools }: TasksSettings, admission: TaskAdmission) {
    this.#tools = tools
    this.#admission = admission
    this.#hasTools = [...tools.values()].some(policy => policy !== 'never')
  }

  /** [2025-11-25] Whether calls of a tool may be tasks: only if the option `tools` names it. */
  mayBeTask(name: unknown): boolean {
    const policy = this.#tools.get(name as string)
    return policy !== undefined && policy !== 'never'
  }

  /** Whether tasks of 2025-11-25 are offered to the client of a request. */
  isCore({ revision }: RequestContext): boolean {
    return revision === CORE_REVISION && this.#hasTools
  }

  /** Adds tasks to the endpoint's answer. To be called before the endpoint runs. */
  declare(context: RequestContext): void {
    const { res, messages } = context
    const isAsked = ({ method }: Message): boolean =>
      method === 'server/discover' ||
      (this.#hasTools && (method === 'initialize' || method === 'tools/list'))
    if (!messages.some(isAsked)) return
    const rewrite = (message: Message, header: ReadHeader): Message | undefined =>
      isResponse(message) ? this.#declaring(context, message, header) : undefined
    rewriteAnswer(res, { limit: LONGEST_ANSWER, rewrite })
  }

  #declaring(context: RequestContext, message: Message, header: ReadHeader): Message | undefined {
    const { result } = message
    if (!isObject(result)) return undefined
    if (Array.isArray(result['tools']))
      return this.isCore(context) && this.#admission.hasOwnTasks(context) !== true
        ? withTools(message, tool => (this.mayBeTask(tool['name']) ? markedTool(tool) : tool))
        : undefined
    const { capabilities } = result
    if (!isObject(capabilities)) return undefined
    const isDiscovery = context.messages.some(({ method }) => method === 'server/discover')
    const revision = isDiscovery
      ? FIRST_STATELESS_REVISION
      : parseRevision(result['protocolVersion'])
    if (revision === undefined) return undefined
    this.#admission.note(context, capabilities, revision)
    const mayList = context.owner !== '' || header('mcp-session-id') !== undefined
    const all = isDiscovery
      ? withExtension(capabilities)
      : revision === CORE_REVISION
        ? declaringTasks(capabilities, mayList)
        : undefined
    return all === undefined ? undefined : { ...message, result: { ...result, capabilities: all } }
  }
}

/** Capabilities of a server of 2026-07-28 with tasks added; `undefined`: it has its own. */
function withExtension(capabilities: Record<string, unknown>): Record<string, unknown> | undefined {
  if (hasOwnTasks(capabilities)) return undefined
  const extensions = objectIn(capabilities['extensions'])
  return { ...capabilities, extensions: { ...extensions, [TASKS_EXTENSION]: {} } }
}
