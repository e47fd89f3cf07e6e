// What a task waits for from its client (2026-07-28): rounds of questions, and the answers as they
// come, under keys that are never used again.

/** What the endpoint is to have with the next round, as JSON. */
export interface Round {
  readonly inputResponses: string
  readonly requestState: string | undefined
}

export class TaskInput {
  #round = 0
  /** Questions that have not been answered, by the key that the client knows. */
  readonly #open = new Map<string, { readonly key: string; readonly text: string }>()
  /** Answers as JSON, by the endpoint's keys. */
  readonly #given = new Map<string, string>()
  #requestState: string | undefined

  get isOpen(): boolean {
    return this.#open.size > 0
  }

  /** The open questions by their keys, as JSON. */
  get text(): string {
    const members = [...this.#open].map(([key, { text }]) => `${JSON.stringify(key)}:${text}`)
    return `{${members.join()}}`
  }

  /** The endpoint asks: its questions by its own keys, and its state, as JSON. */
  ask(questions: ReadonlyMap<string, string>, requestState: string | undefined): void {
    this.#round++
    this.#requestState = requestState
    for (const [key, text] of questions) this.#open.set(`r${this.#round}.${key}`, { key, text })
  }

  /** Bytes of those among some answers that are waited for. */
  sizeOf(answers: ReadonlyMap<string, string>): number {
    const open = [...answers].filter(([name]) => this.#open.has(name))
    return open.reduce((sum, [, text]) => sum + Buffer.byteLength(text), 0)
  }

  /**
   * Takes answers. Keys that are not open are not looked at: what comes twice has been answered.
   * Returns how many it has taken, and what the endpoint is to have once all are there.
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
