"""What the codes of problems mean and what to do about them, for the pages below ``/problems`` and the reference.

A code has two parts. The first names the family; what a code itself lacks here, its family says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Explanation(NamedTuple):
    """One or two sentences each: what happened, and what helps."""

    meaning: str
    advice: str


_AGAIN = "Send it again later; nothing was lost."
_CLIENT = "This is a mistake of the client: read the sentence, and hold the request against the reference."
_READ = "Read the sentence: it says which value was refused and what is possible."

FAMILIES: Mapping[str, Explanation] = {
    "access": Explanation("The token is missing, not good, or not allowed to do this.", "Ask an admin for a token."),
    "attack": Explanation("A question about attackers that cannot be answered.", _READ),
    "audit": Explanation("An audit that cannot be run as asked.", _READ),
    "backup": Explanation("A backup cannot be written, or a file is no whole backup.", _READ),
    "bench": Explanation("A measurement of speed failed.", _READ),
    "budget": Explanation("Epsilon would exceed what a device's owner allowed.", "Nothing was sent; see the ledger."),
    "campaign": Explanation("The campaign's document or state does not allow this.", _READ),
    "choose": Explanation("A choice among methods that cannot be made as asked.", _READ),
    "coins": Explanation("The operating system gave no randomness, or a draw makes no sense.", _READ),
    "compare": Explanation("A comparison of mechanisms that cannot be made as asked.", _READ),
    "consent": Explanation("The person has not agreed, or to other terms.", "Ask the person; nothing was sent."),
    "contract": Explanation("A mechanism lacks a member or breaks a promise that all keep.", _READ),
    "demo": Explanation("A part of the demonstration did not start or did not finish.", "See the log that it names."),
    "detect": Explanation("A search for crafted reports that cannot be made as asked.", _READ),
    "device": Explanation("The device's file or clock does not allow a report.", "Nothing was sent."),
    "dictionary": Explanation("A list of keys that is missing, or is none.", _READ),
    "document": Explanation("A document holds what its canonical form does not have.", _CLIENT),
    "engine": Explanation("Reports cannot be counted by this engine.", _READ),
    "enrolment": Explanation("The enrolment token is missing, used, unknown, or not asked for.", _READ),
    "entropy": Explanation("The operating system gave no randomness.", "Nothing was drawn; look at the machine."),
    "epsilon": Explanation("Epsilon is not a positive decimal within limits.", _READ),
    "estimate": Explanation("Estimates that cannot be made, read or drawn as asked.", _READ),
    "forecast": Explanation("A forecast that cannot be made as asked.", _READ),
    "input": Explanation("A file cannot be read.", _READ),
    "install": Explanation("A part of Keyveil is not installed.", "Install the extra that the sentence names."),
    "journal": Explanation("The audit log cannot be read, or does not hold together.", "Tell the operator."),
    "lab": Explanation("An experiment that could not be finished.", _READ),
    "learn": Explanation("A question to estimates that they cannot answer.", _READ),
    "mechanism": Explanation("A mechanism's name or options make no sense.", _READ),
    "output": Explanation("A file cannot be written.", _READ),
    "plan": Explanation("A plan that cannot be made as asked.", _READ),
    "population": Explanation("A data file or frame does not hold people with pairs.", _READ),
    "postprocess": Explanation("A method of post-processing that cannot be used so.", _READ),
    "privacy": Explanation("A promise about epsilon that cannot be proved or kept.", _READ),
    "protocol": Explanation("A round out of order, or rounds of another protocol.", _READ),
    "question": Explanation("The reports of this campaign cannot answer this question, or it makes no sense.", _READ),
    "queue": Explanation("The collector has more to do than it takes.", f"{_AGAIN} Retry-After says when."),
    "recover": Explanation("A recovery from crafted reports that cannot be made as asked.", _READ),
    "record": Explanation("A record that no device can answer with.", _READ),
    "report": Explanation("The report, or the upload that holds it, was not taken.", _READ),
    "reproduce": Explanation("A table or figure that cannot be run so.", _READ),
    "request": Explanation("The request cannot be read or served.", _CLIENT),
    "restore": Explanation("A backup cannot take the place of this database.", _READ),
    "round": Explanation("The round is not the one that is open.", "Fetch the campaign again and look at its round."),
    "schema": Explanation("Keys, ranges, levels or groups that make no sense.", _READ),
    "serve": Explanation("A collector cannot start or serve so.", _READ),
    "server": Explanation("The collector made a mistake; nothing of the request was kept.", "Tell the operator."),
    "settings": Explanation("A setting of the collector makes no sense.", _READ),
    "simulate": Explanation("A simulation that cannot be run as asked.", _READ),
    "storage": Explanation("The database cannot be reached, is full, or is of another version.", _AGAIN),
    "tally": Explanation("A tally of another mechanism, or damaged bytes.", _READ),
    "threads": Explanation("A number of threads that makes no sense.", _READ),
    "transport": Explanation("The collector could not be reached, or did not answer as one.", _AGAIN),
}

CODES: Mapping[str, Explanation] = {
    "access/campaign": Explanation("The token is good, but not for this campaign.", "Use a token that names it."),
    "access/exists": Explanation("There is a token of this name already.", "Choose another name."),
    "access/form": Explanation(
        "A form did not come from a page of the session that sent it.", "Open the page again and send its form."
    ),
    "access/invalid": Explanation("A token with such a name, role or end cannot be made.", _READ),
    "access/needed": Explanation(
        "This address is for analysts or admins.", "Send a token: Authorization: Bearer <token>."
    ),
    "access/no-token": Explanation("There is no token of this name.", "List them with keyveil token list."),
    "access/role": Explanation("The token's role may not do this.", "Use the token of an admin."),
    "access/unknown": Explanation(
        "The token is not known here, has expired or was revoked.", "Ask an admin for another."
    ),
    "campaign/ambiguous": Explanation("Several campaigns begin with these digits.", "Give more digits of the hash."),
    "campaign/changed": Explanation(
        "A document differs from one of the same name that the device has seen.", "Devices do not answer it."
    ),
    "campaign/dates": Explanation("The days of rounds contradict each other.", _READ),
    "campaign/exists": Explanation("There is such a campaign already.", "Documents never change: choose another name."),
    "campaign/name": Explanation("A name has up to 64 of a-z, 0-9 and '-'.", "Choose another name."),
    "campaign/state": Explanation("The campaign's state does not allow this step.", "See keyveil campaign status."),
    "campaign/too-few": Explanation(
        "Fewer reports have been counted than the campaign promised to speak about.", "Wait for more reports."
    ),
    "campaign/unanswerable": Explanation(
        "No device would answer: the mechanism cannot take every record.", "Choose a key-value mechanism such as ssr."
    ),
    "campaign/unknown": Explanation(
        "There is no such campaign, or it is a draft, which needs a token to be seen.", "Check the name."
    ),
    "dictionary/malformed": Explanation("The list of keys is not canonical JSON, or not what its hash names.", _CLIENT),
    "dictionary/unknown": Explanation("There is no list of keys with this hash.", "Upload it before the campaign."),
    "enrolment/count": Explanation("So many tokens cannot be made at once.", _READ),
    "enrolment/needed": Explanation("This campaign takes reports with an enrolment token only.", "Send the token."),
    "enrolment/none": Explanation("This campaign has no enrolment.", "Devices report without a token."),
    "enrolment/one": Explanation("With an enrolment token one report is sent at a time.", _CLIENT),
    "enrolment/revoked": Explanation("The enrolment token was revoked.", "Ask whoever gave it."),
    "enrolment/unknown": Explanation("The enrolment token is not known here.", "Ask whoever gave it."),
    "enrolment/used": Explanation("The enrolment token has been used in this round.", "One device, one token."),
    "estimate/min-reports": Explanation("Fewer reports than the promised least number.", "Wait for more reports."),
    "question/confidence": Explanation("A confidence lies between 0 and 1.", _READ),
    "question/kind": Explanation("There is no such kind of question.", "See what can be asked."),
    "question/mechanism": Explanation(
        "The reports of this mechanism cannot answer this question.", "The sentence names mechanisms that could."
    ),
    "question/too-few": Explanation("Too few reports for this question.", "Wait for more reports."),
    "queue/full": Explanation("More reports wait to be stored than the collector keeps in memory.", _AGAIN),
    "queue/rate": Explanation("Reports come faster than the collector takes them.", _AGAIN),
    "report/batch": Explanation("The upload holds no reports, or too many.", _CLIENT),
    "report/conflict": Explanation(
        "Another report has this id already. Ids are drawn from 2^128: a device does not draw one twice.",
        "The earlier report stays counted.",
    ),
    "report/document": Explanation(
        "The report was made for another document than the open round's.", "Fetch the campaign again."
    ),
    "report/duplicate": Explanation("The same report is stored already.", "Nothing to do: it is counted once."),
    "report/malformed": Explanation("The upload, or a report in it, cannot be read.", _CLIENT),
    "report/media-type": Explanation("Uploads are JSON or Keyveil's packed form.", "See the wire format."),
    "report/part": Explanation("The report's id belongs to people whom this round does not ask.", _CLIENT),
    "report/public": Explanation("The report's id is not 16 bytes.", _CLIENT),
    "report/size": Explanation("The payload has not the length that all reports of the round have.", _CLIENT),
    "report/too-large": Explanation("The upload is larger than the collector takes.", "Send fewer reports at once."),
    "report/twice": Explanation("One upload holds the same id twice.", _CLIENT),
    "request/accept": Explanation("The address has no form that the Accept header allows.", "See the reference."),
    "request/invalid": Explanation("A part of the request is not what the reference says.", _CLIENT),
    "request/malformed": Explanation("The request cannot be read.", _CLIENT),
    "request/method": Explanation("The address does not take this method.", "The Allow header names those it takes."),
    "request/not-found": Explanation("There is nothing at this address.", "See /api."),
    "request/slow": Explanation("The request's body came too slowly.", _AGAIN),
    "request/too-large": Explanation("The request's body is too large.", "See the limits in docs/deployment.md."),
    "round/closed": Explanation("The round takes no reports any more.", "Nothing to do; the device keeps its record."),
    "round/order": Explanation("Another round is open.", "Fetch the campaign again."),
    "round/unknown": Explanation("There is no such round.", "See keyveil campaign status."),
    "round/waiting": Explanation("The round has not opened yet.", "Its document says from which day on."),
    "server/error": Explanation("The collector made a mistake; nothing of the request was kept.", "Tell the operator."),
    "storage/conflict": Explanation("Somebody else changed the same thing at the same time.", "Look, and try again."),
    "storage/full": Explanation("The disk is full, or nearly.", "The operator makes room; nothing was lost."),
    "storage/unavailable": Explanation("The database cannot be reached.", _AGAIN),
}


def explain(code: str) -> Explanation | None:
    """What a code means, by itself or by its family; nothing for a family that does not exist."""
    family = code.partition("/")[0]
    return CODES.get(code) or FAMILIES.get(family)
