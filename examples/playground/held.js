/* global document, window */
// What the servers hold: open sockets, and the bytes that the middleware keeps.

/** Asks again and again, until nobody answers. Then it calls `onGone()`. */
export async function watchServers(sides, onGone) {
  try {
    if (document.visibilityState === 'visible') {
      const stats = await (await fetch('/stats')).json()
      for (const { name, part } of sides) {
        const { open, bytes } = stats[name]
        part('held').textContent = open
        part('bytes').textContent = bytes.toLocaleString('en')
      }
    }
    window.setTimeout(() => void watchServers(sides, onGone), 300)
  } catch {
    onGone()
  }
}
