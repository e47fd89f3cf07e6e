// Whether the endpoint admits a client, and whether it has tasks of its own. Its answers are
// cached, so that polling does not double its load.
import { LRUCache } from 'lru-cache'
import { isObject, type Message } from '../../protocol/json-rpc.js'
import { FIRST_STATELESS_REVISION } from '../../protocol/revisions.js'
import { hasOwnTasks } from '../../protocol/tasks.js'
import type { AskedAdmission } from '../../endpoint/admission.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext } from '../../endpoint/request-context.js'

/** Milliseconds for which an admission counts: a client that is shut out can poll so long. */
const BELIEVED_FOR = 5000
/** Paths that are remembered; a client may make up any number of them. */
const MOST_ENDPOINTS = 1000

export class TaskAdmission {
  readonly #parts: InstanceParts
  readonly #hasOwn = new LRUCache<string, boolean>({ max: MOST_ENDPOINTS })

  constructor(parts: InstanceParts) {
    this.#parts = parts
  }

  /** Whether the endpoint has tasks of its own; `undefined`: it has not said so yet. */
  hasOwnTasks(context: RequestContext): boolean | undefined {
    return this.#hasOwn.get(placeOf(context))
  }

  /** Notes what the endpoint has declared, before tasks were added to it. */
  note(context: RequestContext, capabilities: unknown, revision = context.revision): void {
    if (!isObject(capabilities)) return
    const hasOwn = hasOwnTasks(capabilities)
    const place = placeOf({ path: context.path, revision })
    if (hasOwn && this.#hasOwn.get(place) !== true)
      this.#parts.debug('no tasks for %s: the endpoint has tasks of its own', context.path)
    this.#hasOwn.set(place, hasOwn)
  }

  /**
   * Whether the endpoint admits this client; no promise if an earlier admission counts. The caller
   * has to pass a refusal on.
   */
  ask(context: RequestContext, message: Message): AskedAdmission | Promise<AskedAdmission> {
    const isNew = this.hasOwnTasks(context) === undefined
    const asked = this.#parts.admissions.of(context, isNew ? 0 : BELIEVED_FOR, message)
    return asked instanceof Promise ? this.#noted(context, asked) : asked
  }

  async #noted(context: RequestContext, asked: Promise<AskedAdmission>): Promise<AskedAdmission> {
    const admission = await asked
    if (admission.kind !== 'admitted') return admission
    const result = admission.message?.result
    if (isObject(result) && isObject(result['capabilities']))
      this.note(context, result['capabilities'])
    else if (this.hasOwnTasks(context) === undefined) this.note(context, {})
    return admission
  }
}

/** An endpoint and a version of tasks, as it may have tasks of one version only. */
function placeOf({ path, revision }: Pick<RequestContext, 'path' | 'revision'>): string {
  return revision !== undefined && revision < FIRST_STATELESS_REVISION ? `core:${path}` : path
}
