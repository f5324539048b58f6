// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
const boxes = [...document.querySelectorAll('.filters input')];
function filter() {
  for (const c of document.querySelectorAll('.case'))
    c.classList.toggle('hidden', !boxes.some(b => b.checked && c.classList.contains(b.value)));
  for (const s of document.querySelectorAll('section.group'))
    s.classList.toggle('hidden', !s.querySelector('.case:not(.hidden)'));
}
for (const b of boxes) b.addEventListener('change', filter);
filter();
