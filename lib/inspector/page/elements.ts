// What the page is made of: words for figures, and elements that change only where they must.

export const $ = (id: string): HTMLElement => document.getElementById(id)!

export const number = (value: number): string => value.toLocaleString('en')

export function bytes(value: number): string {
  const units = ['B', 'KB', 'MB', 'GB']
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`
  if (ms < 172_800_000) return `${(ms / 3_600_000).toFixed(1)} h`
  return `${Math.floor(ms / 86_400_000)} days`
}

export const clock = (at: number): string => new Date(at).toLocaleTimeString('en-GB')

export function make<T extends keyof HTMLElementTagNameMap>(
  tag: T,
  className = '',
  text = ''
): HTMLElementTagNameMap[T] {
  const element = document.createElement(tag)
  if (className) element.className = className
  element.textContent = text
  return element
}

/** Only what is new: whoever has selected something, or has the focus there, keeps it. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

export function setAttribute(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value)
}

/** An item of a list on the page, and what brings it up to date. */
export interface Shown<T> {
  readonly element: HTMLElement
  readonly update: (item: T) => void
}

/** Keeps the children of an element in the order of what they show, and keeps those that stay. */
export class List<T> {
  readonly #parent: HTMLElement
  readonly #keyOf: (item: T) => string | number
  readonly #create: (item: T) => Shown<T>
  #shown = new Map<string | number, Shown<T>>()

  constructor(
    parent: HTMLElement,
    keyOf: (item: T) => string | number,
    create: (item: T) => Shown<T>
  ) {
    this.#parent = parent
    this.#keyOf = keyOf
    this.#create = create
  }

  show(items: readonly T[]): void {
    const before = this.#shown
    this.#shown = new Map()
    let next: Element | null = null
    for (const item of items.toReversed()) {
      const key = this.#keyOf(item)
      const shown = before.get(key) ?? this.#create(item)
      before.delete(key)
      this.#shown.set(key, shown)
      const { element, update } = shown
      update(item)
      if (element.parentNode !== this.#parent || element.nextSibling !== next)
        this.#parent.insertBefore(element, next)
      next = element
    }
    for (const { element } of before.values()) element.remove()
  }
}
