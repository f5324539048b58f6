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
/* A link to a case shows it, also where it is folded or filtered out. */
function reveal() {
  const at = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!at) return;
  at.classList.remove('hidden');
  at.closest('section').classList.remove('hidden');
  if (at.tagName === 'DETAILS') at.open = true;
  at.scrollIntoView();
}
addEventListener('hashchange', reveal);
reveal();
