// A GET for a listen channel in a session that has one already: the endpoint decides.
import type { Capture } from './capture-types.js'
import type { ResponseCapture } from './response-capture.js'

export interface SecondChannel {
  /** The endpoint has opened a channel beside the one there is. */
  allowed(): void
  /** The endpoint has answered 409. `undefined`: its client is to see that. */
  refused(response: ResponseCapture): Capture | undefined
}
