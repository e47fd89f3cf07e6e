// What the page is told, over an event stream: all at first, then what has changed.
import type { ServerResponse } from 'node:http'
import type { McpStreams, McpStreamsDetails, McpStreamsStats } from '../index.js'
import { type RequestEntry, Watch } from './watch.js'

/** Milliseconds between two updates: at the least, and where nothing happens. */
const SHORTEST = 250
const LONGEST = 1000
/** Making an update may take one part in so many of the time. */
const SHARE = 20
/** Streams of each group that are listed. */
const MOST_LISTED = 30
const MOST_VIEWERS = 8
/** Milliseconds until a viewer has to come again, and `allow` is asked again. */
const LONGEST_LOOK = 5 * 60_000
/** Milliseconds between two points of the chart, and that the chart is long. */
const STEP = 5000
const SPAN = 15 * 60_000

/** What the chart is drawn of: figures at a time of day. */
interface Point {
  readonly at: number
  readonly running: number
  readonly waiting: number
  readonly cuts: number
  readonly mended: number
  readonly failed: number
}

/** What one event tells. */
export interface News {
  /** The time of day, in milliseconds. */
  readonly at: number
  readonly stats: McpStreamsStats & McpStreamsDetails
  /** Those that have changed; all, where `isWhole`. */
  readonly requests: readonly RequestEntry[]
  /** A new one of the chart, if any; all, where `isWhole`. */
  readonly points: readonly Point[]
  readonly isWhole: boolean
  /** What a request to act has to show; `null`: only where `isWhole`, or nobody may act. */
  readonly token: string | null
}

interface Viewer {
  /** Everything is yet to be sent. */
  isNew: boolean
  /** It has not taken what was sent last. */
  isFull: boolean
  readonly since: number
}

export class Feed {
  readonly #streams: McpStreams
  readonly #token: string | undefined
  readonly #watch: Watch
  readonly #viewers = new Map<ServerResponse, Viewer>()
  #points: Point[] = []
  #timer: ReturnType<typeof setTimeout> | undefined
  #hasChanged = false
  /** When the last update was made, and when the next one may be. */
  #updatedAt = -Infinity
  #nextAt = -Infinity

  /** @param token sent with the first update: what a request to act has to show. */
  constructor(streams: McpStreams, token: string | undefined) {
    this.#streams = streams
    this.#token = token
    this.#watch = new Watch(streams, () => this.#changed())
  }

  get hasRoom(): boolean {
    return this.#viewers.size < MOST_VIEWERS
  }

  /** @param res with its head written. */
  add(res: ServerResponse): void {
    if (this.#viewers.size === 0) this.#watch.start()
    const viewer = { isNew: true, isFull: false, since: performance.now() }
    this.#viewers.set(res, viewer)
    res.on('drain', () => (viewer.isFull = false))
    res.on('error', () => this.#left(res))
    res.once('close', () => this.#left(res))
    this.#hasChanged = true
    this.#plan()
  }

  #left(res: ServerResponse): void {
    if (!this.#viewers.delete(res) || this.#viewers.size > 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#watch.stop()
  }

  #changed(): void {
    if (this.#hasChanged) return
    this.#hasChanged = true
    if (this.#viewers.size > 0) this.#plan()
  }

  #plan(): void {
    const now = performance.now()
    const at = this.#hasChanged ? this.#nextAt : Math.max(this.#nextAt, this.#updatedAt + LONGEST)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#update(), Math.max(0, at - now))
    this.#timer.unref()
  }

  #update(): void {
    const begun = performance.now()
    this.#hasChanged = false
    const stats = this.#streams.stats({ streams: MOST_LISTED })
    const point = this.#nextPoint(stats)
    const requests = this.#watch.takeChanged()
    const news: News = {
      at: Date.now(),
      stats,
      requests,
      points: point === undefined ? [] : [point],
      isWhole: false,
      token: null
    }
    const newsText = eventOf(news)
    const all = (): News => ({
      ...news,
      requests: this.#watch.entries,
      points: this.#points,
      isWhole: true,
      token: this.#token ?? null
    })
    for (const [res, viewer] of this.#viewers) {
      // What a slow viewer misses is made up for by everything.
      if (viewer.isFull) viewer.isNew = true
      else {
        viewer.isFull = !res.write(viewer.isNew ? eventOf(all()) : newsText)
        viewer.isNew = false
      }
      // A server that is about to end does not wait for who looks.
      if (stats.isClosing || begun - viewer.since > LONGEST_LOOK) this.#end(res, viewer)
    }
    const end = performance.now()
    this.#updatedAt = end
    this.#nextAt = end + Math.max(SHORTEST, (end - begun) * SHARE)
    if (this.#viewers.size > 0) this.#plan()
  }

  #end(res: ServerResponse, { isFull }: Viewer): void {
    this.#left(res)
    if (isFull) res.destroy()
    else res.end()
  }

  /** `undefined`: it is not time yet. Nothing is drawn of the time when nobody has looked. */
  #nextPoint(stats: McpStreamsStats): Point | undefined {
    const at = Date.now()
    const last = this.#points.at(-1)
    if (last !== undefined && at >= last.at && at - last.at < STEP) return undefined
    const point = {
      at,
      running: stats.answering,
      waiting: stats.waiting,
      cuts: stats.lostConnections,
      mended: stats.recoveries,
      failed: Object.values(stats.failures).reduce((sum, count) => sum + count, 0)
    }
    this.#points = [...this.#points.filter(point => point.at > at - SPAN && point.at <= at), point]
    return point
  }
}

function eventOf(message: News): string {
  return `data: ${JSON.stringify(message)}\n\n`
}
