/* global document */
// What is drawn of one side: what was received, over time, and under it the connections, the waits
// and the cuts.

const HEIGHT = 196
const TOP = 22
const FLOOR = 128
const BAR = { y: 148, height: 18 }
const LEFT = 10
/** Seconds that are shown at least. */
const SHORTEST = 12

/**
 * Draws a run into an `<svg>`: `{ start, end, points, spans, cuts }`, times in milliseconds. A
 * point is
 * `{ at, share, kind }`, a span `{ from, to, kind, label }`, a cut `{ at, kind }`. The time axis
 * reaches to `until`.
 */
export function draw(target, { start, end, points, spans, cuts }, until) {
  const width = target.clientWidth || 600
  const seconds = Math.max(SHORTEST, Math.ceil(((until - start) / 1000) * 1.04))
  const x = at => LEFT + ((at - start) / 1000 / seconds) * (width - 2 * LEFT)
  const y = share => FLOOR - Math.min(share, 1) * (FLOOR - TOP - 8)

  const shapes = [
    line(LEFT, FLOOR, width - LEFT, FLOOR, 'floor'),
    line(LEFT, y(1), width - LEFT, y(1), 'ceiling'),
    text(LEFT, y(1) + 14, 'all', 'all')
  ]
  const step =
    [1, 2, 5, 10, 20, 60, 120, 300, 600].find(step => seconds / step <= width / 55) ?? 1800
  for (let second = 0; second <= seconds; second += step)
    shapes.push(
      text(x(start + second * 1000), HEIGHT - 8, `${second} s`, `tick ${edgeOf(second / seconds)}`)
    )

  for (const { from, to = end ?? until, kind, label } of spans) {
    const length = Math.max(x(to) - x(from), 2)
    shapes.push(shape('rect', { x: x(from), ...BAR, width: length, rx: 3, class: `span ${kind}` }))
    const fitting = [label, label.split(':')[0]].find(text => length > 7 * text.length + 8)
    if (fitting)
      shapes.push(
        text(x(from) + length / 2, BAR.y + (kind === 'turn' ? -4 : 13), fitting, `label ${kind}`)
      )
  }
  let free = 0
  for (const { at, kind } of cuts) {
    shapes.push(line(x(at), TOP - 4, x(at), BAR.y + BAR.height + 4, 'cut'))
    // The second character asks for the scissors as text, not as a picture. Where names would
    // overlap, there are only scissors.
    const name = [`✂\ufe0e ${kind}`, '✂\ufe0e'].find(name => x(at) - halfOf(name) >= free)
    if (name === undefined) continue
    const middle = Math.min(Math.max(x(at), halfOf(name)), width - halfOf(name))
    shapes.push(text(middle, TOP - 9, name, 'cut'))
    free = middle + halfOf(name)
  }
  for (const { at, share, kind } of points) {
    const radius = { event: 3.2, sample: 3.2, chunk: 1.8 }[kind] ?? 6
    shapes.push(shape('circle', { cx: x(at), cy: y(share), r: radius, class: `point ${kind}` }))
    if (kind === 'lost') shapes.push(text(x(at) + 12, y(share) + 4, 'lost', 'outcome'))
  }
  target.setAttribute('height', HEIGHT)
  target.replaceChildren(...shapes)
}

/** About half of the width of the name of a cut. */
function halfOf(name) {
  return 4 * name.length + 2
}

/** Text at an edge must not reach over it. */
function edgeOf(share) {
  return share < 0.04 ? 'first' : share > 0.96 ? 'last' : ''
}

function shape(name, attributes) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name)
  for (const [attribute, value] of Object.entries(attributes))
    element.setAttribute(attribute, value)
  return element
}

function line(x1, y1, x2, y2, className) {
  return shape('line', { x1, y1, x2, y2, class: className })
}

function text(x, y, content, className) {
  const element = shape('text', { x, y, class: className })
  element.textContent = content
  return element
}
