// Input that a task needs from its client (2026-07-28): the endpoint's requests for input, round by
// round, under keys that are used once only, and the answers as they come.

/** What the endpoint gets with the next round, as JSON. */
export interface Round {
  readonly inputResponses: string
  readonly requestState: string | undefined
}

export class TaskInput {
  #round = 0
  /** Requests for input without an answer, by the key that the client knows. */
  readonly #open = new Map<string, { readonly key: string; readonly text: string }>()
  /** Answers as JSON, by the endpoint's keys. */
  readonly #given = new Map<string, string>()
  #requestState: string | undefined

  get isOpen(): boolean {
    return this.#open.size > 0
  }

  /** The open requests for input, as the JSON of `inputRequests`. */
  get text(): string {
    const members = [...this.#open].map(([key, { text }]) => `${JSON.stringify(key)}:${text}`)
    return `{${members.join()}}`
  }

  /** Begins a round: the endpoint's requests by its own keys, and its state, as JSON. */
  ask(questions: ReadonlyMap<string, string>, requestState: string | undefined): void {
    this.#round++
    this.#requestState = requestState
    for (const [key, text] of questions) this.#open.set(`r${this.#round}.${key}`, { key, text })
  }

  /** Bytes of those answers that a request for input is open for. */
  sizeOf(answers: ReadonlyMap<string, string>): number {
    const open = [...answers].filter(([name]) => this.#open.has(name))
    return open.reduce((sum, [, text]) => sum + Buffer.byteLength(text), 0)
  }

  /**
   * Takes answers, and ignores those whose key is unknown or has been answered. Returns how many it
   * has taken, and what the endpoint gets if no request for input is open any more.
   */
  answer(answers: ReadonlyMap<string, string>): { taken: number; round: Round | undefined } {
    let taken = 0
    for (const [name, text] of answers) {
      const question = this.#open.get(name)
      if (question === undefined) continue
      this.#open.delete(name)
      this.#given.set(question.key, text)
      taken++
    }
    return { taken, round: taken > 0 && !this.isOpen ? this.#take() : undefined }
  }

  #take(): Round {
    const given = [...this.#given].map(([key, text]) => `${JSON.stringify(key)}:${text}`)
    const round = { inputResponses: `{${given.join()}}`, requestState: this.#requestState }
    this.#given.clear()
    this.#requestState = undefined
    return round
  }
}
