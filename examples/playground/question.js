/* global document */
// The form of an elicitation: made from the schema that the tool asks by.

const form = document.getElementById('question')
const fields = document.getElementById('fields')
const startButton = document.getElementById('start-question')

/** Shows the question, once for all that ask it. */
export function ask({ message, requestedSchema: { properties } }) {
  if (!form.hidden) return
  document.getElementById('question-title').textContent = message
  fields.replaceChildren(...Object.entries(properties).map(fieldFor))
  form.hidden = false
  // A user who has gone on to another button must not press a key there and type it here.
  if ([document.body, startButton].includes(document.activeElement))
    fields.querySelector('input').focus()
}

/** Leaves the focus where the keyboard can go on from. */
export function closeQuestion() {
  if (form.contains(document.activeElement)) startButton.focus()
  form.hidden = true
}

/** Calls `listener(answer)` with what was filled in, or with a no. */
export function onAnswer(listener) {
  document.getElementById('decline').addEventListener('click', () => {
    closeQuestion()
    listener({ action: 'decline' })
  })
  form.addEventListener('submit', event => {
    event.preventDefault()
    const inputs = [...fields.querySelectorAll('input')]
    const valueOf = ({ type, value, valueAsNumber }) => (type === 'number' ? valueAsNumber : value)
    closeQuestion()
    const content = Object.fromEntries(inputs.map(input => [input.name, valueOf(input)]))
    listener({ action: 'accept', content })
  })
}

function fieldFor([name, { title, type, default: value, minimum: min, maximum: max }]) {
  const input = document.createElement('input')
  const isNumber = type === 'integer'
  Object.assign(input, {
    name,
    required: true,
    type: isNumber ? 'number' : 'text',
    autocomplete: 'off'
  })
  if (isNumber) Object.assign(input, { min, max })
  input.value = value
  const label = document.createElement('label')
  label.append(title, input)
  return label
}
