// The chart of the last fifteen minutes.
import type { News } from '../feed.js'
import { $, clock, number, setAttribute, setText } from './elements.js'

type Point = News['points'][number]

const chart = document.querySelector('svg')!
const SPAN = 15 * 60 * 1000
// Of points that are further apart, nothing is known in between.
const GAP = 15_000
const BARS = 30

let now = 0
let points: readonly Point[] = []

export function showPoints({ at, points: added, isWhole }: News): void {
  now = at
  points = [...(isWhole ? [] : points), ...added].filter(point => point.at > at - SPAN)
  if (added.length > 0) draw()
}

type Add = (
  tag: string,
  attributes: Readonly<Record<string, string | number>>,
  text?: string
) => void

function draw(): void {
  const width = chart.clientWidth
  const height = chart.clientHeight
  const shown = points.filter(point => point.at > now - SPAN)
  const most = Math.max(4, ...shown.flatMap(({ running, waiting }) => [running, waiting]))
  const floor = height - 72
  const x = (time: number): number => Math.round(((time - now + SPAN) / SPAN) * width * 10) / 10
  const y = (value: number): number => Math.round((floor - (value / most) * (floor - 16)) * 10) / 10
  const parts: Element[] = []
  const add: Add = (tag, attributes, text = '') => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value))
    element.textContent = text
    parts.push(element)
  }
  add('line', { class: 'grid', x1: 0, x2: width, y1: y(most), y2: y(most) })
  add('line', { class: 'axis', x1: 0, x2: width, y1: floor, y2: floor })
  add('text', { x: 0, y: 11 }, number(most))

  for (const run of unbroken(shown)) {
    const line = (name: 'running' | 'waiting'): string =>
      run.map(point => `${x(point.at)},${y(point[name])}`).join(' ')
    const [left, right] = [run.at(0), run.at(-1)].map(end => `${x(end!.at)},${floor}`)
    add('polygon', { class: 'area', points: `${left} ${line('running')} ${right}` })
    add('polyline', { class: 'running', points: line('running') })
    if (run.some(({ waiting }) => waiting > 0))
      add('polyline', { class: 'waiting', points: line('waiting') })
  }
  drawBars(shown, { width, top: floor + 8, bottom: height - 22 }, add)
  add('text', { x: 0, y: height - 4 }, '15 min ago')
  add('text', { class: 'middle', x: width / 2, y: height - 4 }, '7½ min')
  add('text', { class: 'end', x: width, y: height - 4 }, 'now')
  chart.replaceChildren(...parts)
  tellChart(shown)
}

/** Where nobody has looked, nothing is known. */
function unbroken(points: readonly Point[]): Point[][] {
  const runs: Point[][] = []
  let last = -Infinity
  for (const point of points) {
    if (point.at - last > GAP) runs.push([])
    runs.at(-1)?.push(point)
    last = point.at
  }
  return runs
}

const COUNTED = ['cuts', 'mended', 'failed'] as const

/** What has happened since the point before, in each thirtieth of the time. */
function drawBars(
  points: readonly Point[],
  { width, top, bottom }: { width: number; top: number; bottom: number },
  add: Add
): void {
  const bars = Array.from({ length: BARS }, () => ({ cuts: 0, mended: 0, failed: 0 }))
  points.forEach((point, i) => {
    const before = points[i - 1]
    const bar = bars[Math.min(BARS - 1, Math.floor(((point.at - now + SPAN) / SPAN) * BARS))]
    if (before === undefined || bar === undefined) return
    for (const name of COUNTED) bar[name] += Math.max(0, point[name] - before[name])
  })
  const most = Math.max(4, ...bars.flatMap(bar => COUNTED.map(name => bar[name])))
  const step = width / BARS
  const thick = Math.max(2, (step - 3) / COUNTED.length)
  bars.forEach((bar, i) =>
    COUNTED.forEach((name, j) => {
      if (bar[name] === 0) return
      const height = Math.max(3, (bar[name] / most) * (bottom - top))
      const x = i * step + 1 + j * thick
      add('rect', { class: name, rx: 1, x, y: bottom - height, width: thick - 0.5, height })
    })
  )
  add('line', { class: 'grid', x1: 0, x2: width, y1: bottom, y2: bottom })
}

function tellChart(points: readonly Point[]): void {
  const first = points.at(0)
  const last = points.at(-1)
  if (first === undefined || last === undefined) return
  const since = ` since ${clock(first.at)}`
  const isYoung = now - first.at < SPAN - 60_000
  const one = 'One point so far, the next in five seconds:'
  const drawn = points.length === 1 ? one : 'Drawn while this page is open:'
  setText($('since'), isYoung ? drawn + since : '')
  const [cuts, mended, failed] = COUNTED.map(name => last[name] - first[name])
  const label =
    `${last.running} calls run, ${last.waiting} wait;${since} ${cuts} connections were lost, ` +
    `${mended} clients came back, ${failed} streams failed`
  setAttribute(chart, 'aria-label', label)
}

new ResizeObserver(draw).observe(chart)
