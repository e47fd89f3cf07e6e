// What you see: a progress bar with the news above it on a terminal, plain lines elsewhere.

import { MultiBar, Presets } from 'cli-progress'

const { stdout } = process

/**
 * Opens a view of `total` steps: `step(n, message)` moves the bar, `news(line)` writes above it,
 * until `close()`.
 */
export function openView(total) {
  if (!stdout.isTTY) {
    const step = (n, message) => n % 10 === 0 && console.log(`  step ${n} of ${total}: ${message}`)
    return { step, news: console.log, close() {} }
  }
  const format = '  {bar} {value} of {total}  {message}'
  const bars = new MultiBar(
    { format, stream: stdout, fps: 30, forceRedraw: true, linewrap: true },
    Presets.shades_classic
  )
  const bar = bars.create(total, 0, { message: '' })
  return {
    step: (n, message) => bar.update(n, { message }),
    news: line => bars.log(`${line}\n`),
    close() {
      bars.update() // writes what `log` still holds: `stop` alone would drop it
      bars.stop()
    }
  }
}
